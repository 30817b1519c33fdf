"""The rules in Lua decide as the rules in Python do: the same random steps give the same answers and records."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from forebay.errors import StoreError
from forebay.model.limit import Limit, Window
from forebay.model.limit_record import Answer, Ask, Layer, Record, WindowLog
from forebay.rules import admission, kept_places, limit_actions, limit_state
from forebay.stores.limit_base import Step
from forebay.stores.redis.limits import RedisLimits
from forebay.stores.redis.script import keys_of
from forebay.testing.limits.hand_clock import HandClock
from tests.property.machines import FUZZ, short_and_long
from tests.servers.fresh import fresh_name
from tests.servers.redis62 import HAS_WHEEL
from tests.servers.server import Server

SERVERS = ["valkey", *(["redis62"] if HAS_WHEEL else [])]
SIDS = ("a", "b", "c")
PLACES = ("x", "y", "z")
UNITS = ("calls", "pages")
START = 1_700_000_000_000

pytestmark = pytest.mark.timeout(0 if FUZZ else 600)

windows = st.builds(
    Window,
    st.sampled_from([3, 1, 2, 10, 3000] * 4 + [0]),
    st.sampled_from([1, 0.5, 10, 60, 86_400]),
    st.sampled_from(UNITS),
)
limits = st.builds(
    Limit,
    st.just("it"),
    in_flight=st.sampled_from(
        [2, 1, 3, 7, None] * 4 + [70, 0] + [{"calls": 3, "pages": 6}, {"pages": 4}] * 6 + [{"pages": 0}]
    ),
    windows=st.lists(windows, min_size=1, max_size=3, unique_by=lambda each: (each.unit, each.per_s)).map(tuple),
    call_timeout_s=st.sampled_from([5, 0.3, 60]),
    lease_s=st.sampled_from([3, 15]),
    heartbeat_s=st.just(1),
    start_within_s=st.sampled_from([0.25, 0.01]),
    on_disconnect=st.sampled_from(["continues", "stops"]),
    cooldown_s=st.sampled_from([(1, 3), (2,)]),
    max_cooldown_s=st.sampled_from([600, 4]),
    breaker_after=st.sampled_from([2, 0, 1]),
)
wanted = st.sampled_from([{"calls": 1, "pages": 1}] * 5 + [{"calls": 1}, {"calls": 1, "pages": 5}])
units = st.dictionaries(st.sampled_from(UNITS), st.sampled_from([1, 2, 0, 5]), max_size=2)
moves = st.sampled_from(
    [0, 1, 40, 250] * 4 + [301, 999, 1000, 1301, 3000, 10_301, 61_000] + [-5, -1500, -60_000, 3_600_000]
)


NOTHING: dict[str, Any] = {
    **dict.fromkeys(
        (
            "request_number",
            "confirmed_grant_number",
            "elapsed_ms",
            "seen_version",
            "answered_request_number",
            "is_sure",
            "terms_version",
            "grant_delay_ms",
        ),
        0,
    ),
    "next_call_id": 1,
    "seen_at": -1,
    "label": "",
    "ended_calls": [],
    "refusals": [],
    "restamp_call_ids": [],
    "runs": [],
}


def layer(limit: Limit, name: str = "code", until: int = -1) -> Layer:
    values = limit_actions.values_of(limit)
    return {"name": name, "values": values, "ends_at": until, "set_at": 0, "set_by": "ünit \u2603", "note": ""}


def _different(found: Mapping[str, Any], mine: Mapping[str, Any]) -> dict[str, Any]:
    names = found.keys() | mine.keys()
    return {name: (found.get(name), mine.get(name)) for name in names if found.get(name) != mine.get(name)}


class Both(RuleBasedStateMachine):
    """One record in Python, one on the server, and one clock that both are told."""

    store: RedisLimits
    hands: HandClock

    def __init__(self) -> None:
        super().__init__()
        self.limit = fresh_name()
        self.record: Record | None = None
        self.raw = START
        self.old: list[Record] = []
        self.last: dict[str, Answer] = {}

    @initialize(limit=limits)
    def begin(self, limit: Limit) -> None:
        assert self._ask("a", {}) == "unknown"
        self._change(lambda record, now: limit_actions.configured(record, "it", layer(limit), now))

    def teardown(self) -> None:
        key = self.store._key(self.limit)
        self.store._links.call("DEL", *keys_of(key), key=key)

    def _change(self, step: Step) -> None:
        self.hands.shown = self.raw
        mine = step(copy.deepcopy(self.record), self.raw)
        assert self.store.change(self.limit, step) == mine
        if mine is not None:
            self.record = mine
        self._compare()

    def _ask(self, sid: str, given: dict[str, Any]) -> str:
        before = cast("Ask", NOTHING | {"session_id": sid} | given)
        self.hands.shown = self.raw
        if self.record is None:
            expected = admission.unknown(self.raw)
        else:
            self.old = [*self.old[-3:], copy.deepcopy(self.record)]
            expected = copy.deepcopy(admission.decide(self.record, copy.deepcopy(before), self.raw))
        verb = (
            self.store.exchange
            if before["request_number"]
            else self.store.give_back
            if before["ended_calls"]
            else self.store.renew
        )
        assert _different(verb(self.limit, before), expected) == {}
        self._compare()
        self.last[sid] = expected
        return expected["status"]

    def _compare(self) -> None:
        found, now = self.store.read(self.limit)
        assert now == self.raw
        mine = self.record
        assert (found is None) == (mine is None)
        assert _different(found or {}, mine or {}) == {}
        assert self.store.check(self.limit) == []
        for sid in ("a", "x.place", "a:cut_off", "nobody"):
            self._compare_found(sid)

    def _compare_found(self, sid: str) -> None:
        found, now = self.store.find(self.limit, sid)
        assert now == self.raw
        assert _different(found or {}, limit_state.only(self.record, sid) if self.record else {}) == {}

    @rule(
        name=st.sampled_from(PLACES),
        holder=st.sampled_from(["first", "first", "first", "second"]),
        data=st.data(),
        keep=st.sampled_from([120_000, 120_000, 10_000, 13_999]),
        comes=st.sampled_from([None, None, -501, -500, 0, 1400, 1499, 1500, 130_000]),
        leaves=st.sampled_from([False] * 7 + [True]),
    )
    def an_owner_asks_for_its_place(
        self, name: str, holder: str, data: st.DataObject, keep: int, comes: int | None, *, leaves: bool
    ) -> None:
        self._come(name, comes)
        run = {"id": 1, "caller_count": 1, "label": "", "front": 0, "units": data.draw(wanted)}
        run["key"] = data.draw(st.sampled_from(["", "", "", "k"]))
        said = {"request_number": 1, "runs": [] if leaves else [run], "keep_ms": keep, "place_name": name}
        self._ask(name + kept_places.SUFFIX, said | {"holder": holder, "label": f"of {name}"})

    def _come(self, name: str, comes: int | None) -> None:
        assert self.record is not None
        place = self._seat(name + kept_places.SUFFIX).get("place")
        if place is not None and comes is not None:
            self._move(max(0, place["told_at"] + comes - self.record["last_step_at"]))

    @rule(
        name=st.sampled_from(PLACES),
        holder=st.sampled_from(["first", "first", "second"]),
        data=st.data(),
        n=st.sampled_from([0, 0, 1, 2]),
        move=moves,
    )
    def an_owner_says_something(self, name: str, holder: str, data: st.DataObject, n: int, move: int) -> None:
        self._move(move)
        sid = name + kept_places.SUFFIX
        said = self._wishes(sid, data) if n else {"ended_calls": []}
        number = self._seat(sid)["request_number"] + n if n else 0
        heard = self._seat(sid)["grant_number"]
        changes = {"request_number": number, "confirmed_grant_number": heard, "runs": [], "holder": holder}
        self._ask(sid, said | changes)

    @rule(name=st.sampled_from(PLACES), comes=st.sampled_from([-501, -500, 0, 1400, 1499, 1500]), data=st.data())
    def somebody_asks_when_an_owner_should_come(self, name: str, comes: int, data: st.DataObject) -> None:
        self._come(name, comes)
        self._ask("a", self._wishes("a", data))

    def _seat(self, sid: str) -> dict[str, Any]:
        assert self.record is not None
        return dict(self.record["sessions"].get(sid, admission._new_seat()))

    @rule(sids=st.lists(st.sampled_from(SIDS), min_size=1, max_size=6), data=st.data())
    def exchange(self, sids: list[str], data: st.DataObject) -> None:
        for sid in sids:
            self._move(data.draw(moves))
            self._ask(sid, self._wishes(sid, data) | self._memory(sid, data))

    def _wishes(self, sid: str, data: st.DataObject) -> dict[str, Any]:
        assert self.record is not None
        seat = self._seat(sid)
        ids = [call["id"] for call in seat["calls"]] + [99]
        now = self.record["last_step_at"]
        outcome = st.sampled_from(["ok", "failed", "unsent", "", "cut_off", "timed_out"])
        done = st.fixed_dictionaries({"call_id": st.sampled_from(ids), "outcome": outcome, "units": units})
        hint = st.fixed_dictionaries(
            {
                "kind": st.sampled_from(["rate_limited", "quota"]),
                "granted_at": st.sampled_from([now, now - 1, now - 900, now + 1]),
                "wait_ms": st.sampled_from([-1, 0, 700, 1500, 3_000_000]),
                "jitter_permille": st.sampled_from([0, 7, 200]),
            }
        )
        known = [run["id"] for run in seat["runs"]] + [grant["run_id"] for grant in seat["unconfirmed"]]
        fresh = seat["request_number"] * 10
        wish = st.fixed_dictionaries(
            {
                "id": st.sampled_from([*known, fresh + 1, fresh + 2, fresh + 3]),
                "key": st.sampled_from(["", "k"]),
                "caller_count": st.sampled_from([1, 2, 3, 30, 0]),
                "units": units,
                "label": st.sampled_from(["", "ü"]),
                "front": st.sampled_from([0, 0, 0, 1]),
                "in_hand_count": st.sampled_from([0, 0, 1, 31]),
            }
        )
        return {
            "request_number": max(1, seat["request_number"] + data.draw(st.sampled_from([1] * 8 + [0, -1]))),
            "confirmed_grant_number": max(0, seat["grant_number"] - data.draw(st.sampled_from([0, 0, 1, 2]))),
            "next_call_id": data.draw(st.sampled_from([1, 50])),
            "ended_calls": data.draw(st.lists(done, max_size=4)),
            "refusals": data.draw(st.lists(hint, max_size=2)) if data.draw(st.sampled_from([0] * 9 + [1])) else [],
            "restamp_call_ids": data.draw(st.lists(st.sampled_from(ids), max_size=2, unique=True)),
            "runs": data.draw(st.lists(wish, max_size=4, unique_by=lambda each: each["id"])),
        }

    @rule(sid=st.sampled_from(SIDS), data=st.data(), move=moves)
    def renew(self, sid: str, data: st.DataObject, move: int) -> None:
        self._move(move)
        self._ask(
            sid,
            {"request_number": 0, "confirmed_grant_number": self._seat(sid)["grant_number"]} | self._memory(sid, data),
        )

    @rule(sid=st.sampled_from(SIDS), data=st.data(), move=moves)
    def give_back(self, sid: str, data: st.DataObject, move: int) -> None:
        self._move(move)
        said = {
            name: each
            for name, each in self._wishes(sid, data).items()
            if name in {"ended_calls", "refusals", "confirmed_grant_number"}
        }
        self._ask(sid, {"request_number": 0} | said | self._memory(sid, data))

    def _memory(self, sid: str, data: st.DataObject) -> dict[str, int]:
        assert self.record is not None
        last = self.last.get(sid)
        remembers = last is not None and data.draw(st.booleans())
        return {
            "seen_at": last["now"] if last and remembers else -1,
            "elapsed_ms": data.draw(st.sampled_from([0, 5, 1000, 2500, 70_000])),
            "seen_version": self.record["version"] + data.draw(st.sampled_from([0] * 30 + [3])),
            "answered_request_number": self._seat(sid)["request_number"] + data.draw(st.sampled_from([0] * 20 + [1])),
            "grant_delay_ms": data.draw(st.sampled_from([0, 0, 100, 170, 400, 1500, 9000])),
            "is_sure": data.draw(st.sampled_from([0, 1])),
            "terms_version": data.draw(st.sampled_from([0, self.record["terms_version"]])),
        }

    def _move(self, ms: int) -> None:
        # Back and forth, but never before anything was.
        self.raw = max(START // 2, self.raw + ms)

    @rule(sid=st.sampled_from(SIDS), count=st.integers(1, 12), every=st.sampled_from([1, 0, 20, 500]))
    def many_calls(self, sid: str, count: int, every: int) -> None:
        """A session that makes short calls, one after the other."""
        for _ in range(count):
            seat = self._seat(sid)
            wish = {"id": seat["request_number"] + 1, "key": "", "caller_count": 2, "units": {"calls": 1, "pages": 2}}
            done = [{"call_id": call["id"], "outcome": "ok", "units": {"pages": 3}} for call in seat["calls"]]
            given = {
                "request_number": seat["request_number"] + 1,
                "confirmed_grant_number": seat["grant_number"],
                "ended_calls": done,
                "runs": [{**wish, "label": "", "front": 0, "in_hand_count": count % 4}],
            }
            self._ask(sid, given)
            self._move(every)

    @rule(
        sid=st.sampled_from(SIDS),
        asked=st.lists(st.sampled_from([1, 3, 31]), min_size=1, max_size=6),
        outcome=st.sampled_from(["ok", "unsent"]),
        units=st.sampled_from([{}, {"calls": 1}, {"pages": 1}]),
    )
    def quick_calls(self, sid: str, asked: list[int], outcome: str, units: dict[str, int]) -> None:
        """A session alone, with more slots than callers."""
        for other in {"a", *SIDS} - {sid}:
            self._ask(other, self._next_request(other))
        for count in asked:
            seat = self._seat(sid)
            ended = [{"call_id": call["id"], "outcome": outcome, "units": {}} for call in seat["calls"]]
            run = {
                "id": seat["request_number"] + 1,
                "key": "",
                "caller_count": 1,
                "units": units,
                "label": "",
                "front": 0,
            }
            given = {"ended_calls": ended, "runs": [run | {"in_hand_count": count}]}
            self._ask(sid, self._next_request(sid) | given)
            self._move(1)

    def _next_request(self, sid: str) -> dict[str, Any]:
        """Confirm everything, and wait for nothing."""
        seat = self._seat(sid)
        return {"request_number": seat["request_number"] + 1, "confirmed_grant_number": seat["grant_number"]}

    @rule(entries=st.sampled_from([3, 511, 512, 513, 700]), every=st.sampled_from([1, 13, 170, 400]), data=st.data())
    def fill_a_log(self, entries: int, every: int, data: st.DataObject) -> None:
        assert self.record is not None
        if not self.record["window_logs"]:
            return
        name = data.draw(st.sampled_from(sorted(self.record["window_logs"])))
        last = self.record["last_step_at"]

        def step(record: Record | None, now: int) -> Record | None:
            assert record is not None
            items = [each for at in range(entries) for each in (last - (entries - 1 - at) * every, 1 + at % 3)]
            record["window_logs"][name] = {"sum": sum(items[1::2]), "entries": items}
            record["version"] += 1
            return record

        self._change(step)

    @rule(
        limit=limits, name=st.sampled_from(["code", "override", "operator"]), ends_in=st.sampled_from([-1, 500, 20_000])
    )
    def configure(self, limit: Limit, name: str, ends_in: int) -> None:
        until = -1 if ends_in < 0 or name != "override" else self.raw + ends_in
        self._change(lambda record, now: limit_actions.configured(record, "it", layer(limit, name, until), now))

    @precondition(lambda self: self.old)
    @rule(how=st.sampled_from(["pause", "stop", "resume", "reset", "reset all", "clear", "roll back"]), data=st.data())
    def meddle(self, how: str, data: st.DataObject) -> None:
        """What people do, and a store that failed over to a copy that was behind."""
        old = data.draw(st.sampled_from(self.old))

        def step(record: Record | None, now: int) -> Record | None:
            assert record is not None
            match how:
                case "pause" | "stop":
                    return limit_actions.paused(record, now, for_ms=400 if how == "pause" else None, note="n")
                case "resume":
                    return limit_actions.resumed(record, now)
                case "clear":
                    others = any(each["name"] != "override" for each in record["layers"])
                    return limit_actions.cleared(record, "it", "override", now) if others else None
                case "roll back":
                    return copy.deepcopy(old)
                case _:
                    return limit_actions.forgotten(record, now, everything=how == "reset all")[0]

        self._change(step)
        if how == "stop":
            self._ask("a", {"request_number": 0})
            self._change(lambda record, now: limit_actions.resumed(record, now) if record else None)


@pytest.fixture(params=SERVERS)
def store(request: pytest.FixtureRequest) -> Iterator[RedisLimits]:
    with _opened(request.getfixturevalue(f"{request.param}_server").url) as store:
        yield store


@contextmanager
def _opened(url: str) -> Iterator[RedisLimits]:
    store = RedisLimits(url, environment=fresh_name(), clock=HandClock())
    try:
        yield store
    finally:
        store.close()


def _machine(store: RedisLimits) -> type[Both]:
    return type("Machine", (Both,), {"store": store, "hands": store._clock})


@pytest.mark.slow
@short_and_long
def test_lua_decides_as_python_does(store: RedisLimits, share: float) -> None:
    short = settings(max_examples=round(share * 40), stateful_step_count=25)
    run_state_machine_as_test(_machine(store), settings=settings() if FUZZ else short)


@pytest.mark.slow
def test_a_log_of_many_calls_is_joined_alike(store: RedisLimits) -> None:
    log = _make_many_calls(store)
    assert len(log["entries"]) // 2 < log["sum"]


def _make_many_calls(store: RedisLimits) -> WindowLog:
    machine = _machine(store)()
    machine.begin(Limit("it", windows=(Window(1000, 2),), start_within_s=0.01))
    for n in range(1, 800):
        machine.raw += 1 + n % 3
        run = {"id": n, "key": "", "caller_count": 1, "units": {"calls": 1}, "label": "", "front": 0}
        machine._ask(
            "a",
            {
                "request_number": n,
                "confirmed_grant_number": n,
                "ended_calls": [{"call_id": n - 1, "outcome": "ok", "units": {}}],
                "runs": [run],
            },
        )
    machine.teardown()
    assert machine.record is not None
    return machine.record["window_logs"]["calls/2000"]


def test_those_who_do_not_delay_the_head_pass_it_alike(store: RedisLimits) -> None:
    assert _let_some_pass(store) == 1


def _let_some_pass(store: RedisLimits) -> int:
    """The first waits for 5 pages of 10 until 4 of 8 are free again: one more page is spare, not two."""
    machine = _machine(store)()
    machine.begin(Limit("it", windows=(Window(10, 10, "pages"),), start_within_s=0.01))
    wants = {"key": "", "label": "", "front": 0}
    for n, count, pages in ((1, 1, 4), (2, 1, 4), (3, 1, 5), (4, 2, 1)):
        machine.raw += 2000
        run = {"id": n, "caller_count": count, "units": {"pages": pages}, **wants}
        machine._ask("abcd"[n - 1], {"request_number": 1, "runs": [run]})
    machine.teardown()
    return sum(grant["call_count"] for grant in machine.last["d"]["grants"])


def test_slots_in_hand_are_granted_alike(store: RedisLimits) -> None:
    assert _have_slots_in_hand(store, 20) == [3, 10, 2, 8, 2, 1]
    assert _have_slots_in_hand(store, {"calls": 20, "pages": 15}) == [3, 7, 1, 8, 2, 1]


def _have_slots_in_hand(store: RedisLimits, in_flight: int | dict[str, int]) -> list[int]:
    """Bound by what is asked for, by the half of 20 or of 15 pages, by the half of 50 pages, and by who waits."""
    machine = _machine(store)()
    machine.begin(Limit("it", in_flight=in_flight, windows=(Window(50, 10, "pages"),), start_within_s=0.01))
    found = []
    wants = {"key": "k", "label": "", "front": 0, "caller_count": 1}
    for n, in_hand, pages in ((1, 2, 1), (2, 31, 1), (3, 31, 6), (4, 7, 0)):
        seat = machine._seat("a")
        ended = [{"call_id": call["id"], "outcome": "ok", "units": {}} for call in seat["calls"]]
        run = {"id": n, "in_hand_count": in_hand, "units": {"pages": pages}, **wants}
        said = {"request_number": n, "confirmed_grant_number": seat["grant_number"], "ended_calls": ended}
        machine._ask("a", said | {"runs": [run]})
        found.append(sum(grant["call_count"] for grant in machine.last["a"]["grants"]))
        machine.raw += 1
    for sid, in_hand, pages in (("b", 2, 0), ("c", 0, 40), ("d", 31, 0)):
        run = {"id": 1, "in_hand_count": in_hand, "units": {"pages": pages}, **wants}
        machine._ask(sid, {"request_number": 1, "runs": [run]})
        if sid != "c":
            found.append(sum(grant["call_count"] for grant in machine.last[sid]["grants"]))
    machine.teardown()
    return found


def test_a_long_line_is_served_alike(store: RedisLimits) -> None:
    aheads, mores = _serve_a_long_line(store)
    assert max(aheads) > 70
    assert sum(mores) > 3


def _serve_a_long_line(store: RedisLimits) -> tuple[list[int], list[int]]:
    """More sessions wait than a step looks at; then there is room for many, some confirm, and at last all are gone."""
    machine = _machine(store)()
    limit = Limit("it", in_flight=1, windows=(Window(90, 10, "pages"),), call_timeout_s=5, lease_s=3, heartbeat_s=1)
    machine.begin(limit)
    wants = {"id": 1, "label": "", "front": 0}
    runs = [[wants | {"key": f"k{at % 5}", "caller_count": 1 + at % 3, "units": {"pages": at % 4}}] for at in range(70)]
    for at, run in enumerate(runs):
        machine.raw += 7
        machine._ask(f"s{at:02}", {"request_number": 1, "runs": run})
    aheads = [answer["waits"][0]["ahead_count"] for answer in machine.last.values() if answer["waits"]]
    mores = []

    def ask(steps: int) -> None:
        for _ in range(steps):
            machine._ask("asker", {"request_number": machine._seat("asker")["request_number"] + 1})
            mores.append(machine.last["asker"]["has_more"])

    more_room = dataclasses.replace(limit, in_flight=80)
    machine._change(lambda record, now: limit_actions.configured(record, "it", layer(more_room), now))
    ask(4)
    for at in range(0, 70, 3):
        machine._ask(
            f"s{at:02}",
            {
                "request_number": 2,
                "confirmed_grant_number": machine._seat(f"s{at:02}")["grant_number"],
                "runs": runs[at],
            },
        )
    ask(2)
    machine._ask("s01", {"request_number": 0, "seen_version": 10_000})  # one remembers more than there is
    ask(2)
    for _ in range(3):
        machine.raw += 3000
        machine._ask("asker", {"request_number": 0})
        ask(5)
    machine.teardown()
    return aheads, mores


MISTAKES = {
    "no clock offset": ("record.clock_offset_ms = record.clock_offset_ms + true_now - now", ""),
    "one more in flight": (
        "terms.in_flight <= record.in_flight_count) and",
        "terms.in_flight < record.in_flight_count) and",
    ),
    "one more in a window": (
        "(place.units[bound.unit] or 0) > bound.n then",
        "(place.units[bound.unit] or 0) > bound.n + 1 then",
    ),
    "rounding towards zero": ("floor((took - mean) / 8)", "math.ceil((took - mean) / 8)"),
    "no probe after a cool-down": ("cool.ramp_began_at = -1", "cool.ramp_began_at = 0"),
    "giving back needs a number": (
        "  finish(record, seat, ask, terms, now)",
        "  if ask.request_number > 0 then finish(record, seat, ask, terms, now) end",
    ),
    "what was cut off is free": ("cut_off(record, ask.session_id, seat.label, call, terms)", ""),
    "a late request counts": ("0 < ask.request_number and ask.request_number < seat.request_number", "false"),
    "the header counts what was given back": ("record.in_flight_count = record.in_flight_count - 1", ""),
    "a tail moves with every run that leaves": ("if tail.run_count == 0 then", "if true then"),
    "what was voided counts": ("if generation ~= record.generation then", "if false then"),
    "late starts that windows do not count": ("max(0, line.late_now(record) - start)", "0"),
    "one more unit in flight": ("+ need > bound.n then", "+ need > bound.n + 1 then"),
    "units in flight that are not given back": ("count_units(record, call, -1)", ""),
    "a slot is kept too long": ("local KEPT = 2 * SECOND", "local KEPT = 3 * SECOND"),
    "somebody else may say what a holder may": ("seat.place and ask.keep_ms == 0 and", "false and"),
    "the line by age only": ("if one.virtual_start ~= other.virtual_start then", "if false then"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_lua_is_found(mistake: str, valkey_server: Server) -> None:
    unshrunk = settings(settings.get_profile("test"), max_examples=150, phases=[Phase.generate])
    with _opened(valkey_server.url) as store:
        _mistake(store, *MISTAKES[mistake])
        with pytest.raises((AssertionError, StoreError)):
            run_state_machine_as_test(_machine(store), settings=unshrunk)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "drive"),
    [
        ("(ENTRY, now, count + units)", "(ENTRY, instant, count + units)", "_make_many_calls"),
        ("+ (head.units[bound.unit] or 0)", "", "_let_some_pass"),
        ("calls = floor(calls * rank / runs)", "", "_serve_a_long_line"),
        ("local MOST_ENDINGS = 8", "local MOST_ENDINGS = 9", "_serve_a_long_line"),
        (
            "      redis.call('ZADD', away[sid] and UNCONFIRMED or LINE, places[index + 1], member)",
            "",
            "_serve_a_long_line",
        ),
    ],
)
def test_a_mistake_off_the_beaten_track_is_found(right: str, wrong: str, drive: str, valkey_server: Server) -> None:
    with _opened(valkey_server.url) as store:
        _mistake(store, right, wrong)
        with pytest.raises(AssertionError):
            globals()[drive](store)


def _mistake(store: RedisLimits, right: str, wrong: str) -> None:
    assert right in store._exchange.text
    store._exchange.use(store._exchange.text.replace(right, wrong))
