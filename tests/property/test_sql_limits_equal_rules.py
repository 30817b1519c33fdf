"""A limit store in SQL works on a part of a record as the rules do on all of it: same answers, same records."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from forebay.model.limit_record import Record
from forebay.stores.limit_base import Step
from forebay.stores.postgres.limits import PostgresLimits
from forebay.stores.sqlite.boot_clock import Moment
from forebay.stores.sqlite.limits import SqliteLimits
from forebay.testing.limits.hand_clock import HandClock
from tests.property.machines import FUZZ, short_and_long
from tests.property.test_lua_equals_rules import Both, _different
from tests.servers.fresh import fresh_database, fresh_name
from tests.servers.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0 if FUZZ else 600)]
SqlLimits = SqliteLimits | PostgresLimits
CROWD = 45
"""More sessions than a step looks at, and more than it clears away at once."""


def sorted_lists(record: Record | None) -> Record | None:
    """Return the record with runs and calls in the order of their ids: their order in the lists means nothing."""
    if record is None:
        return None
    record = copy.deepcopy(record)
    for seat in record["seats"].values():
        seat["runs"].sort(key=lambda run: run["id"])
        seat["calls"].sort(key=lambda call: call["id"])
    return record


class BothInSql(Both):
    """One record in Python, one in rows, and one clock that both are told."""

    store: SqlLimits  # type: ignore[assignment]

    def teardown(self) -> None:
        pass  # the file or the database goes as a whole

    def _change(self, step: Step) -> None:
        self.hands.shown = self.raw
        mine = step(copy.deepcopy(self.record), self.raw)
        assert sorted_lists(self.store.change(self.limit, step)) == sorted_lists(mine)
        if mine is not None:
            self.record = mine
        self._compare()

    def _compare(self) -> None:
        found, now = self.store.read(self.limit)
        assert now == self.raw
        assert _different(sorted_lists(found) or {}, sorted_lists(self.record) or {}) == {}
        assert self.store.check(self.limit) == []

    @rule(
        count=st.sampled_from([CROWD, 12]),
        callers=st.sampled_from([1, 3]),
        keys=st.sampled_from([1, 7]),
        confirms=st.booleans(),
        every=st.sampled_from([0, 1]),
        units=st.sampled_from([{}, {"calls": 1}, {"calls": 1, "pages": 5}]),
    )
    def a_crowd_joins(
        self, count: int, callers: int, keys: int, *, confirms: bool, every: int, units: dict[str, int]
    ) -> None:
        for number in range(count):
            sid = f"crowd{number}"
            seat = self._seat(sid)
            run = {"id": seat["n"] + 1, "key": f"k{number % keys}", "count": callers, "units": units, "label": "l"}
            done = [{"id": call["id"], "outcome": "ok", "units": {}} for call in seat["calls"][:1]]
            heard = seat["g"] if confirms else 0
            said = {"n": seat["n"] + 1, "heard": heard, "done": done, "runs": [run | {"front": 0}]}
            self._ask(sid, said)
            self._move(every)

    @rule(
        which=st.integers(0, CROWD - 1),
        outcome=st.sampled_from(["ok", "timed_out", "unsent"]),
        move=st.sampled_from([0, 100, 3001, 15_001, 62_000]),
    )
    def one_of_the_crowd_asks(self, which: int, outcome: str, move: int) -> None:
        self._move(move)
        sid = f"crowd{which}"
        seat = self._seat(sid)
        done = [{"id": call["id"], "outcome": outcome, "units": {}} for call in seat["calls"]]
        runs = [{**run, "front": 0} for run in seat["runs"]]
        for each in runs:
            del each["tag"], each["tick"]
        self._ask(sid, {"n": seat["n"] + 1, "heard": seat["g"], "done": done, "runs": runs})


@pytest.fixture(params=["sqlite", "postgres"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[HandClock], SqlLimits]]:
    if request.param == "sqlite":
        yield lambda hands: SqliteLimits(tmp_path / "limits.db", clock=lambda: Moment("boot", hands(), hands()))
        return
    server: Server = request.getfixturevalue("postgres_server")
    with fresh_database(server) as url:
        yield lambda hands: PostgresLimits(url, environment=fresh_name(), clock=hands)


@pytest.fixture
def machine(make_store: Callable[[HandClock], SqlLimits]) -> Iterator[type[BothInSql]]:
    hands = HandClock()
    store = make_store(hands)
    yield type("Machine", (BothInSql,), {"store": store, "hands": hands})
    store.close()


@short_and_long
def test_a_part_of_a_record_is_enough(machine: type[BothInSql], share: float) -> None:
    short = settings(max_examples=round(share * 30), stateful_step_count=15)
    run_state_machine_as_test(machine, settings=settings() if FUZZ else short)
