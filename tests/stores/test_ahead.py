"""However long a line is, no more than a bound of it is counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.stores.base import MAX_AHEAD, Ledger
from forebay.stores.memory.ledger import MemoryLedger
from forebay.stores.sqlite.ledger import SqliteLedger
from forebay.testing.workers import lone

MAKERS: dict[str, Callable[[Path], Ledger]] = {
    "memory": lambda _: MemoryLedger(),
    "sqlite": lambda folder: SqliteLedger(folder / "ledger.db"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_no_more_than_a_bound_is_counted_ahead(tmp_path: Path, name: str) -> None:
    with MAKERS[name](tmp_path) as ledger:
        line = [lone(n) for n in range(MAX_AHEAD + 3)]
        later = lone("later", delay_s=1000)
        ledger.submit([*line, later])
        assert [ledger.ahead(line[at].id) for at in (0, 7, MAX_AHEAD - 1)] == [0, 7, MAX_AHEAD - 1]
        assert [ledger.ahead(new.id) for new in (line[-2], line[-1], later)] == [MAX_AHEAD] * 3
