"""Stores that keep sums and orders come to what a naive limit counts through at every step."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from forebay.model.limit_record import Answer, Ask, Record
from forebay.rules import admission, in_hand, kept_places, limit_state
from forebay.rules import window_log as logs
from forebay.stores.limit_base import LimitStore
from forebay.stores.memory.limits import MemoryLimits
from forebay.stores.postgres.limits import PostgresLimits
from forebay.stores.redis.limits import RedisLimits
from forebay.stores.sqlite.boot_clock import Moment
from forebay.stores.sqlite.limits import SqliteLimits
from forebay.testing.limits.case import HELD_WITH_WINDOWS, LATE, LEASE, START, define, problems_of_parts, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.naive_limit import NaiveLimit, Window
from forebay.testing.limits.owner import Owner
from forebay.testing.limits.process import LIMIT, Process
from tests.property.machines import FUZZ, run, run_until_failure, short_and_long
from tests.servers.clients import redis_client
from tests.servers.fresh import fresh_database, fresh_name
from tests.servers.server import Server

pytestmark = pytest.mark.timeout(0 if FUZZ else 600)

ANY = st.integers(0, 99)
MAX_PROCESSES = 5
MOST_JOINS = 3
WINDOWS = ((7, 2.0), (30, 10.0, "pages"))
JOINS = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.sampled_from([1, 1, 3, 8, 29, 40]),
        st.sampled_from(["", "k", "m"]),
        st.booleans(),
        st.sampled_from([0, 0, 1, 9]),
    ),
    max_size=MOST_JOINS,
)
ENDINGS = st.lists(
    st.tuples(ANY, st.sampled_from(["ok", "ok", "", "unsent", "unreached", "cut_off"]), st.integers(0, 12)), max_size=4
)
PLACES = ("job-1", "job-2", "job-3")
STEPS = st.sampled_from([0, 1, 50, 700, 2000, 2300, 1, 4000, 10_000, 10_301, 15_000, 61_000])


class NaiveMachine(RuleBasedStateMachine):
    """Fewer runs in line than a step looks at, so that each step does all that there is to do."""

    make_store: Callable[[HandClock], LimitStore]

    def __init__(self) -> None:
        super().__init__()
        self.clock = HandClock()
        self.store = self.make_store(self.clock)
        self.alive: list[Process] = []
        self.started = 0
        self.deliveries = 0
        self.owners: dict[str, Owner] = {}

    def teardown(self) -> None:
        self.store.close()

    @initialize(
        in_flight=st.sampled_from([1, 3, 9, 20]), pages=st.sampled_from([0, 10, 35]), longer=st.sampled_from([1, 8])
    )
    def is_defined(self, in_flight: int, pages: int, longer: int) -> None:
        units = {"pages": pages} if pages else {}
        define(
            self.store,
            {"calls": in_flight, **units},
            [(n, longer * per_s, *unit) for n, per_s, *unit in WINDOWS],
            breaker_after=0,
        )
        wide = [Window(n, int(longer * per_s * 1000) + LATE, *(unit or ["calls"])) for n, per_s, *unit in WINDOWS]
        most = max(START, 100 * longer)  # a twentieth of the shorter window
        self.naive = NaiveLimit(
            in_flight, wide, held_ms=HELD_WITH_WINDOWS, lease_ms=LEASE, units=units, start_ms=START, most_fresh_ms=most
        )

    def _process(self, pick: int) -> Process:
        if pick % MAX_PROCESSES >= len(self.alive):
            self.started += 1
            self.alive.append(Process(self.store, self.clock, f"p{self.started}"))
        return self.alive[pick % MAX_PROCESSES % len(self.alive)]

    def _has_room_in_line(self) -> bool:
        return len(self.naive.runs) < limit_state.HEADS - MOST_JOINS

    def _move(self, ms: int) -> None:
        """Let time pass, but not so much that more sessions have ended than a step clears away."""
        due = sorted(seat["due_at"] for seat in stored(self.store)["sessions"].values())
        if len(due) >= limit_state.MOST_ENDINGS:
            ms = min(ms, due[limit_state.MOST_ENDINGS - 1] - 1 - self.clock.shown)
        self.clock.move(max(0, ms))

    def _say(self, process: Process, asked: Ask) -> None:
        answer = (self.store.exchange if asked["request_number"] else self.store.renew)(LIMIT, asked)
        woken = self.naive.step(asked, answer["now"])
        assert answer["generation"] == 1
        assert answer["woken_session_ids"] == woken
        assert [
            [grant["number"], grant["run_id"], grant["call_count"]] for grant in answer["grants"]
        ] == self.naive.sessions[process.sid].given
        record = stored(self.store)
        assert line_of(record) == self.naive.line()
        if asked["request_number"]:
            assert (answer["in_flight_count"], answer["in_flight_sums"], answer["window_sums"]) == (
                self.naive.used(),
                self.naive.units_used(),
                self.naive.sums(answer["now"]),
            )
            assert answer["has_more"] == 0
        assert problems_of_parts(self.store) == []
        process.takes(asked, answer)

    @rule(pick=ANY, joins=JOINS, endings=ENDINGS, late=st.booleans(), delay=st.sampled_from([0, 0, 0, 250, 251, 5000]))
    def asks(
        self,
        pick: int,
        joins: list[tuple[int, int, str, bool, int]],
        endings: list[tuple[int, str, int]],
        delay: int,
        *,
        late: bool,
    ) -> None:
        process = self._process(pick)
        process.delay = delay
        for count, pages, key, front, more in joins if self._has_room_in_line() else ():
            process.joins(count, {"pages": pages}, key=key, front=front, in_hand=more)
        for which, outcome, pages in endings:
            if process.calls:
                process.ends([[*process.calls][which % len(process.calls)]], outcome, {"pages": pages})
        if late and process.calls:
            process.starts.append(next(iter(process.calls)))
        self._say(process, process.ask())

    @rule(
        name=st.sampled_from(PLACES),
        pages=st.sampled_from([1, 1, 1, 29]),
        key=st.sampled_from(["", "", "k"]),
        doubled=st.sampled_from([False, False, False, True]),
        comes=st.sampled_from([None, None, -600, 0, 900, 1600]),
    )
    def an_owner_asks_for_its_place(self, name: str, pages: int, key: str, *, doubled: bool, comes: int | None) -> None:
        """At some time, or around the instant that it was told."""
        owner = self.owners.get(name)
        if owner is None or doubled:
            self.deliveries += 1
            owner = Owner(self.store, name, f"delivery-{self.deliveries}")
        if comes is not None and owner.again:
            self._move(owner.told_at + comes - self.clock.shown)
        if not self._has_room_in_line():
            return
        asked = owner.ask({"pages": pages}, key=key)
        answer = self._say_of_place(owner, asked)
        if answer["status"] == "ok":
            self.owners[name] = owner
            for wait in answer["waits"]:
                owner.told_at = answer["now"] + wait["ask_again_in_ms"]
                self.naive.told(owner.sid, owner.told_at)
        assert_counts(self, answer)

    def _say_of_place(self, owner: Owner, asked: Ask) -> Answer:
        answer = (self.store.exchange if asked["request_number"] else self.store.give_back)(LIMIT, asked)
        assert answer["woken_session_ids"] == self.naive.step(asked, answer["now"])
        expected = self.naive.sessions[owner.sid].given if answer["status"] == "ok" else []
        assert [[grant["number"], grant["run_id"], grant["call_count"]] for grant in answer["grants"]] == expected
        owner.takes(answer)
        return answer

    @rule(name=st.sampled_from(PLACES), numbered=st.booleans())
    def an_owner_gives_its_slot_back(self, name: str, *, numbered: bool) -> None:
        owner = self.owners.get(name)
        if owner is not None and owner.call:
            answer = self._say_of_place(owner, owner.returning(numbered=numbered))
            owner.call = 0
            assert_counts(self, answer)

    @rule(
        name=st.sampled_from(PLACES),
        comes=st.lists(st.sampled_from([-600, -500, 0, 900, 1499, 1500, 1600]), min_size=1, max_size=2).map(sorted),
        pick=ANY,
        joins=JOINS,
    )
    def others_come_around_the_told_instant(
        self, name: str, comes: list[int], pick: int, joins: list[tuple[int, int, str, bool, int]]
    ) -> None:
        """All that is held is given back, so that something can be kept, and one of them has more callers."""
        owner = self.owners.get(name)
        if owner is None or not owner.again:
            return
        for after in comes:
            self._move(owner.told_at + after - self.clock.shown)
            process = self._process(pick)
            for count, pages, key, front, more in joins if self._has_room_in_line() else ():
                process.joins(count, {"pages": pages}, key=key, front=front, in_hand=more)
            for each in self.alive:
                each.ends([*each.calls])
                self._say(each, each.ask())

    @rule(pick=ANY)
    def beats(self, pick: int) -> None:
        process = self._process(pick)
        self._say(process, process._said(0))

    @rule(pick=ANY, which=ANY)
    def gives_up(self, pick: int, which: int) -> None:
        process = self._process(pick)
        if process.line:
            process.leaves([*process.line][which % len(process.line)])

    @rule(pick=ANY)
    def hears_nothing(self, pick: int) -> None:
        """Its next request confirms nothing: the wake-up and the answer were lost."""
        process = self._process(pick)
        if self._has_room_in_line():
            process.joins(2, {"pages": 1})
        asked = process.ask()
        self.store.exchange(LIMIT, asked)
        self.naive.step(asked, stored(self.store)["last_step_at"])

    @rule(pick=ANY)
    def crashes(self, pick: int) -> None:
        if self.alive and len(stored(self.store)["sessions"]) < limit_state.MOST_ENDINGS:
            del self.alive[pick % len(self.alive)]

    @rule(ms=STEPS, beat=st.booleans())
    def time_passes(self, ms: int, *, beat: bool) -> None:
        while ms > 0:
            self._move(min(ms, 4000))
            ms -= min(ms, 4000)
            for process in self.alive if beat else ():
                self._say(process, process._said(0))


def assert_counts(machine: NaiveMachine, answer: Answer) -> None:
    naive = machine.naive
    if answer["status"] == "ok":
        assert (answer["in_flight_count"], answer["window_sums"]) == (naive.used(), naive.sums(answer["now"]))
        assert answer["has_more"] == 0
    assert line_of(stored(machine.store)) == naive.line()
    assert problems_of_parts(machine.store) == []


def line_of(record: Record) -> list[tuple[str, int, int]]:
    places = [
        (run["virtual_start"], run["arrival_number"], sid, run)
        for sid, seat in record["sessions"].items()
        for run in seat["runs"]
    ]
    return [(sid, each["id"], each["caller_count"]) for _, _, sid, each in sorted(places, key=lambda place: place[:2])]


def machine_of(make_store: Callable[[HandClock], LimitStore]) -> type[NaiveMachine]:
    return type("Machine", (NaiveMachine,), {"make_store": staticmethod(make_store)})


def memory_limits(clock: HandClock) -> MemoryLimits:
    return MemoryLimits(clock=clock)


@short_and_long
def test_the_rules_come_to_what_is_counted_through(share: float) -> None:
    run(machine_of(memory_limits), examples=share * 100)


def test_who_ended_with_what_it_did_not_hear_of_begins_again() -> None:
    machine = machine_of(memory_limits)()
    machine.is_defined(in_flight=9, pages=0, longer=8)
    machine.hears_nothing(pick=0)
    machine.time_passes(ms=61_000, beat=False)
    machine.beats(pick=1)  # which clears it away, but its calls still count in the long window
    machine.asks(pick=0, joins=[(1, 3, "", False, 0)], endings=[], delay=0, late=False)
    machine.asks(pick=0, joins=[], endings=[(0, "unsent", 0)], delay=0, late=False)


@pytest.mark.slow
@short_and_long
def test_redis_comes_to_what_is_counted_through(valkey_server: Server, share: float) -> None:
    environment, numbers = fresh_name(), itertools.count()

    def redis_limits(clock: HandClock) -> RedisLimits:
        return RedisLimits(valkey_server.url, environment=f"{environment}-{next(numbers)}", clock=clock)

    run(machine_of(redis_limits), examples=share * 60)
    with redis_client(valkey_server.url) as client:
        for key in client.scan_iter(match=f"*{environment}*", count=1000):
            client.unlink(key)


@pytest.mark.slow
@short_and_long
def test_sqlite_comes_to_what_is_counted_through(tmp_path: Path, share: float) -> None:
    files = (tmp_path / f"{number}.db" for number in itertools.count())

    def sqlite_limits(clock: HandClock) -> SqliteLimits:
        return SqliteLimits(next(files), clock=lambda: Moment("boot", clock(), clock()))

    run(machine_of(sqlite_limits), examples=share * 60)


@pytest.mark.slow
@short_and_long
def test_postgres_comes_to_what_is_counted_through(postgres_server: Server, share: float) -> None:
    numbers = itertools.count()
    with fresh_database(postgres_server) as url:

        def postgres_limits(clock: HandClock) -> PostgresLimits:
            return PostgresLimits(url, environment=f"e{next(numbers)}", clock=clock)

        run(machine_of(postgres_limits), examples=share * 25)


def _counts_one_less(patch: pytest.MonkeyPatch) -> None:
    in_flight = limit_state.in_flight
    patch.setattr(limit_state, "in_flight", lambda record: max(0, in_flight(record) - 1))


def _is_too_narrow(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(logs, "width", lambda bound, _: bound["per_ms"])


def _serves_by_age(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limit_state, "order", lambda place: (place.run["arrival_number"], 0))


def _lets_anybody_pass(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admission, "_spares", lambda *_: True)


def _fills_the_limit_in_hand(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(in_hand, "room", lambda *_: 9)


def _forgets_tails(patch: pytest.MonkeyPatch) -> None:
    def forget(record: Record, key: str) -> None:
        tail = record["tails"][key]
        tail["run_count"] -= 1
        tail["virtual_finish"] = record["virtual_time"]
        if tail["run_count"] == 0:
            del record["tails"][key]

    patch.setattr(limit_state, "left_line", forget)


def _keeps_slots_too_long(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kept_places, "KEPT", kept_places.KEPT + 200)


def _grants_to_those_who_are_away(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limit_state, "is_silent", lambda seat: bool(seat["unconfirmed"]))


def _puts_all_who_missed_at_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kept_places, "_MOST_MISSED", 1)


def _lets_anybody_hold_a_slot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kept_places, "refusal", lambda *_: "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken",
    [
        _counts_one_less,
        _is_too_narrow,
        _serves_by_age,
        _lets_anybody_pass,
        _fills_the_limit_in_hand,
        _forgets_tails,
        _keeps_slots_too_long,
        _grants_to_those_who_are_away,
        _puts_all_who_missed_at_the_end,
        _lets_anybody_hold_a_slot,
    ],
)
def test_rules_that_are_broken_are_found_out(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    with pytest.raises(AssertionError):
        run_until_failure(machine_of(memory_limits), examples=300)
