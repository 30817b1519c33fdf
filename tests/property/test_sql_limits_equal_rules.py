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
from forebay.rules import limit_state
from forebay.stores.limit_base import Step
from forebay.stores.postgres.limits import PostgresLimits
from forebay.stores.sql import limit_codec, limit_parts, limit_rows, limit_step
from forebay.stores.sqlite import limit_rows as sqlite_rows
from forebay.stores.sqlite.boot_clock import Moment
from forebay.stores.sqlite.limit_queries import sql
from forebay.stores.sqlite.limits import SqliteLimits
from forebay.testing.limits.hand_clock import HandClock
from tests.property.machines import FUZZ, run_until_failure, short_and_long
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
    for seat in record["sessions"].values():
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
        for sid in ("a", "x.place", "a:cut_off", "nobody", "crowd3"):
            self._compare_found(sid)

    def _compare_found(self, sid: str) -> None:
        found, now = self.store.find(self.limit, sid)
        assert now == self.raw
        mine = None if self.record is None else limit_state.only(self.record, sid)
        assert _different(sorted_lists(found) or {}, sorted_lists(mine) or {}) == {}

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
            run = {
                "id": seat["request_number"] + 1,
                "key": f"k{number % keys}",
                "caller_count": callers,
                "units": units,
                "label": "l",
            }
            done = [{"call_id": call["id"], "outcome": "ok", "units": {}} for call in seat["calls"][:1]]
            heard = seat["grant_number"] if confirms else 0
            large = run | {"id": run["id"] + 100, "units": {"calls": 1, "pages": 5}}
            said = {
                "request_number": seat["request_number"] + 1,
                "confirmed_grant_number": heard,
                "ended_calls": done,
                "runs": [each | {"front": 0} for each in (run, large)],
            }
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
        done = [{"call_id": call["id"], "outcome": outcome, "units": {}} for call in seat["calls"]]
        runs = [{**run, "front": 0} for run in seat["runs"]]
        for each in runs:
            del each["virtual_start"], each["arrival_number"]
        self._ask(
            sid,
            {
                "request_number": seat["request_number"] + 1,
                "confirmed_grant_number": seat["grant_number"],
                "ended_calls": done,
                "runs": runs,
            },
        )


@pytest.fixture(params=["sqlite", "postgres"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[HandClock], SqlLimits]]:
    if request.param == "sqlite":
        yield lambda hands: SqliteLimits(tmp_path / "limits.db", clock=lambda: Moment("boot", hands(), hands()))
        return
    server: Server = request.getfixturevalue("postgres_server")
    with fresh_database(server) as url:
        yield lambda hands: PostgresLimits(url, environment=fresh_name(), clock=hands)


def _lie_in_rows(patch: pytest.MonkeyPatch) -> None:
    """Let a small limit lie in rows as a large one does."""
    patch.setattr(limit_codec, "LARGEST_PACKED", 0)
    patch.setattr(limit_step, "FEW", 0)


def _change_layout(patch: pytest.MonkeyPatch) -> None:
    """Let a limit grow out of its header and shrink into it again, often."""
    patch.setattr(limit_codec, "LARGEST_PACKED", 2000)
    patch.setattr(limit_step, "FEW", 12)
    patch.setattr(limit_parts, "CHECKED_EVERY", 3)


@pytest.fixture(params=[_lie_in_rows, _change_layout])
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    request.param(monkeypatch)


@pytest.fixture
def machine(layout: None, make_store: Callable[[HandClock], SqlLimits]) -> Iterator[type[BothInSql]]:
    hands = HandClock()
    store = make_store(hands)
    yield type("Machine", (BothInSql,), {"store": store, "hands": hands})
    store.close()


@short_and_long
def test_a_part_of_a_record_is_enough(machine: type[BothInSql], share: float) -> None:
    short = settings(max_examples=round(share * 30), stateful_step_count=15)
    run_state_machine_as_test(machine, settings=settings() if FUZZ else short)


def _reads_fewer_places(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limit_parts, "HEADS_READ", 10)


def _takes_places_for_all(patch: pytest.MonkeyPatch) -> None:
    """Takes the places that it has read for the whole line."""
    rest_of = limit_parts._rest
    patch.setattr(
        limit_parts, "_rest", lambda loaded, known, units, before, _: rest_of(loaded, known, units, before, [])
    )
    patch.setattr(limit_parts, "_check", lambda *_: None)


def _counts_nobody_before(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limit_parts.Part, "placed_before", lambda *_: 0)
    patch.setattr(limit_step, "_tag_to_count", lambda *_: None)
    patch.setattr(limit_parts, "likely_tag", lambda *_: 0)


def _reads_too_few_endings(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limit_parts, "ENDINGS_READ", 8)


def _knows_nobody_later(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limit_parts, "_add_later", lambda _record, _later, total: total)


def _counts_no_cut_off_calls(patch: pytest.MonkeyPatch) -> None:
    counts = limit_rows.SeatRows.counts
    patch.setattr(limit_rows.SeatRows, "counts", lambda self, sid: counts(self, sid)._replace(cut_off_calls=0))


def _goes_on_after_a_jump(patch: pytest.MonkeyPatch) -> None:
    """Decides on a part though the time, the terms or the generation have changed."""
    patch.setattr(limit_step, "_is_as_known", lambda *_: True)


def _serves_the_silent(patch: pytest.MonkeyPatch) -> None:
    """Lets the other runs of a session that was granted something wait as if it had confirmed."""
    patch.setattr(sqlite_rows, "sql", lambda name: "SELECT ?, ?, ?, ?" if name == "hold_runs" else sql(name))


@pytest.mark.parametrize(
    "mistake",
    [
        _reads_fewer_places,
        _takes_places_for_all,
        _counts_nobody_before,
        _reads_too_few_endings,
        _knows_nobody_later,
        _counts_no_cut_off_calls,
        _goes_on_after_a_jump,
        _serves_the_silent,
    ],
)
def test_a_mistake_in_the_parts_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lie_in_rows(monkeypatch)
    mistake(monkeypatch)
    hands = HandClock()
    with SqliteLimits(tmp_path / "limits.db", clock=lambda: Moment("boot", hands(), hands())) as store:
        machine = type("Machine", (BothInSql,), {"store": store, "hands": hands})
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it was found out
            run_until_failure(machine, examples=150)
        assert not isinstance(caught.value, TypeError), "the mistake does not fit the store any more"
