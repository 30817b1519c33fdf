"""Counts the swaps that SQLite's limit store lost to another process and did again, while it works by swaps."""

from __future__ import annotations

from typing import Any

from benchmarks.limits_fleet.tally import Tally

LOST = "swaps lost"


def count_lost(tally: Tally) -> None:
    """A store that writes in another way is left alone: nothing is then told of swaps."""
    from forebay.stores.sqlite import limit_rows  # noqa: PLC0415 - only where SQLite is measured

    write: Any = getattr(limit_rows, "write", None)
    if write is None:
        return

    def counted(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - those of the store
        is_written = write(*arguments, **named)
        tally.count("swaps", 1)
        tally.count(LOST, is_written is False)
        return is_written

    limit_rows.write = counted
