"""However long a line is, a task's place in it costs little to tell, and is never told as surer than it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forebay.model.bulk import Bulk
from forebay.model.lane import Certainty, Depth
from forebay.model.payload import JsonText
from forebay.stores import unit_lanes
from forebay.stores.base import MAX_AHEAD, Ledger
from forebay.stores.memory.ledger import MemoryLedger
from forebay.stores.postgres.ledger import PostgresLedger
from forebay.stores.sql import reads
from forebay.stores.sql.transaction import Transaction
from forebay.stores.sqlite.ledger import SqliteLedger
from forebay.testing.workers import lone
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server

MILLION = 1_000_000


@contextmanager
def made(name: str, folder: Path, server: Server) -> Iterator[Ledger]:
    if name == "memory":
        yield MemoryLedger()
    elif name == "sqlite":
        with SqliteLedger(folder / "ledger.db") as ledger:
            yield ledger
    else:
        with fresh_schema(server) as address, PostgresLedger(address) as ledger:
            yield ledger


def submit_many(ledger: Ledger, count: int) -> list[str]:
    """The ids, in the order of the line."""
    found: list[str] = []
    for _ in range(0, count, 10_000):
        bulk = Bulk(lone(), [JsonText("1")] * min(10_000, count))
        ledger.submit(bulk)
        found += bulk.ids
    return found


@pytest.mark.parametrize("name", ["memory", "sqlite", "postgres"])
def test_a_place_beyond_the_bound_of_counting_is_not_told_as_a_fact(
    tmp_path: Path, postgres_server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "MAX_AHEAD", 50)
    monkeypatch.setattr(unit_lanes, "MAX_AHEAD", 50)
    with made(name, tmp_path, postgres_server) as ledger:
        line = [lone(n) for n in range(400)]
        later = lone("later", delay_s=1000)
        ledger.submit([*line, later])
        assert [ledger.ahead(line[at].id) for at in (0, 7, 49)] == [Depth(0), Depth(7), Depth(49)]
        found = [ledger.ahead(new.id) for new in (line[200], line[-1], later)]
    # A small table is read whole where a large one is sampled.
    truth = [Depth(200), Depth(399), Depth(400)]
    assert found == ([Depth(50, Certainty.AT_LEAST)] * 3 if name == "memory" else truth)


def test_an_estimate_is_not_beyond_the_lane() -> None:
    """The sample said 4 % too many, as it may."""
    steps = reads.ahead(Transaction(alone=False), "a" * 26)
    next(steps)
    steps.send([[("work", "work", 0, 1_000_000, 1.0, 1_000_000)]])
    steps.send([[(MAX_AHEAD,)]])
    with pytest.raises(StopIteration) as ended:
        steps.send([[(1_040_000, 999_999, True)]])
    assert ended.value.value == Depth(999_999, Certainty.ABOUT)


def _tolerance(share: float) -> float:
    """Return three standard deviations of a sample of 1600 pages, of which this share lies ahead."""
    return max(0.1, 3 * math.sqrt((1 - share) / (share * 1600)))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_the_place_behind_a_million_is_right(tmp_path: Path, postgres_server: Server, name: str) -> None:
    with made(name, tmp_path, postgres_server) as ledger:
        line = submit_many(ledger, MILLION)
        later = lone("later", delay_s=1000)
        ledger.submit([later])
        places = {line[39_950]: 39_950, line[500_000]: 500_000, line[-1]: MILLION - 1, later.id: MILLION}
        for task_id, truth in places.items():
            depth = ledger.ahead(task_id)
            assert depth.task_count == pytest.approx(truth, rel=_tolerance(truth / MILLION))
            assert depth.task_count <= MILLION - (task_id != later.id)
            assert depth.certainty is (Certainty.EXACT if name == "sqlite" else Certainty.ABOUT)
        assert ledger.lane_state("work").running_count == 0
