"""Counts how often SQLite's limit store waited for the write lock, and how often it looked at the lock again."""

from __future__ import annotations

from benchmarks.limits_fleet.tally import Tally
from forebay.stores.sqlite.patience import Patience

WAITS, LOOKS = "lock waits", "looks at the lock"


def count_waits(tally: Tally) -> None:
    patient = Patience.__call__

    def counted(self: Patience, tries: int) -> bool:
        tally.count(WAITS, tries == 0)
        tally.count(LOOKS)
        return patient(self, tries)

    Patience.__call__ = counted  # type: ignore[method-assign]
