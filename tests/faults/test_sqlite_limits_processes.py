"""Many processes share a limit in one file: never more than it allows, whoever dies in the middle."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from forebay.model.limit import Window
from forebay.stores.sqlite.limits import SqliteLimits
from forebay.testing.limits.case import problems, stored
from forebay.testing.limits.process import LIMIT
from tests.faults import children, limit_children
from tests.faults.limit_children import define, process

BUSY = """
me = process(store, sid)
tell("ready")
sys.stdin.readline()
calls, began = [], time.monotonic()
while time.monotonic() < began + seconds:
    for _ in range(2 - len(me.calls) - len(me.line)):
        me.joins()
    over = [call for call in me.calls if random.random() < 0.3]
    granted = {call: me.calls[call] for call in over}
    me.ends(over)
    now = me.exchanges()["now"]
    calls += [[at, now] for at in granted.values()]
    if random.random() < 0.2:
        me.beats()
calls += [[at, -1] for at in me.calls.values()]
tell([me.acked, calls])
store.close()
"""


class Use(NamedTuple):
    """A call by the store's clock, from its grant to the exchange that gave it back."""

    granted_at: int
    ended_at: int


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "limits.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteLimits]:
    with SqliteLimits(path) as store:
        yield store


def most_at_once(uses: list[Use]) -> int:
    ends = [(use.ended_at, -1) for use in uses if use.ended_at >= 0]
    most = now = 0
    for _, step in sorted([*ends, *((use.granted_at, 1) for use in uses)]):
        now += step
        most = max(most, now)
    return most


def most_within(uses: list[Use], per_ms: int) -> int:
    at = sorted(use.granted_at for use in uses)
    return max(sum(first <= each < first + per_ms for each in at) for first in at)


@pytest.mark.slow
def test_eight_processes_never_exceed_a_limit_that_they_press_against(path: Path, store: SqliteLimits) -> None:
    define(store, 5, Window(20, 0.5), start_within_s=0.01, transit_s=0.0)
    crowd = [limit_children.start(BUSY, path, sid=f"p{number}", seconds=4.0) for number in range(8)]
    try:
        for child in crowd:
            assert children.told(child) == "ready"
        for child in crowd:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        exchanges, uses = 0, []
        for child in crowd:
            count, calls = children.told(child)
            exchanges += count
            uses += [Use(*call) for call in calls]
    finally:
        for child in crowd:
            children.end(child)
    assert exchanges > 400
    assert len(uses) > 80, "the limit was used"
    assert most_at_once(uses) == 5
    assert most_within(uses, 500) == 20
    assert problems(stored(store)) == []


@pytest.mark.slow
def test_what_a_killed_process_held_comes_back_and_its_record_stays_whole(path: Path, store: SqliteLimits) -> None:
    window = Window(1000, per_s=1.0)  # that never binds: without one, calls may start late, and count for longer
    define(store, 2, window, call_timeout_s=0.6, lease_s=0.6, heartbeat_s=0.15, start_within_s=0.01, transit_s=0.0)
    script = """
me = process(store, sid)
while len(me.calls) < 2:
    me.wants(2 - len(me.calls) - len(me.line))
tell("holds")
while True:
    me.exchanges()
    me.beats()
"""
    me = process(store, "me")
    waited_s = []
    for number in range(5):
        child = limit_children.start(script, path, sid=f"p{number}")
        assert children.told(child) == "holds"
        time.sleep(random.uniform(0, 0.05))
        children.end(child)
        killed_at = time.monotonic()
        assert store._opened().main._db.pragma("quick_check") == "ok"
        assert problems(stored(store)) == []
        me.joins(2)
        while len(me.calls) < 2:
            me.exchanges()
            assert time.monotonic() < killed_at + 30
            time.sleep(0.01)
        waited_s.append(time.monotonic() - killed_at)
        me.gives_back([*me.calls])
        me.line.clear()
    assert min(waited_s) < 0.6 + 1.0  # a loaded machine delays some of the five, not all


def test_a_heartbeat_is_not_held_up_by_the_exchanges_of_its_process(path: Path, store: SqliteLimits) -> None:
    define(store, 2)
    me = process(store, "me")
    with store._opened().main.turn():
        assert me.beats()["status"] == "ok"
    assert LIMIT in store.names()
