"""Promises of in-flight bounds of units: each call counts what it names, from its grant until it is over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from forebay.rules.limit_state import in_flight_sum
from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import (
    HELD,
    LEASE,
    MINUTE,
    SECOND,
    LimitCase,
    chances,
    define,
    put,
    stored,
)
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process

PAGES = "in_flight:pages"


class UnitPromises(LimitCase):
    def test_no_more_of_a_unit_at_once_than_its_bound(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, {"calls": 9, "pages": 100})
        assert len(a.wants(3, {"pages": 30})) == 3
        assert b.wants(1, {"pages": 11}) == []
        assert b.waits[0]["blocked_by"] == [PAGES]
        b.line.clear()
        assert len(b.wants(1, {"pages": 10})) == 1
        assert in_flight_sum(stored(store), "pages") == 100

    def test_a_bound_of_a_unit_alone_bounds_no_calls(self, store: LimitStore, a: Process) -> None:
        define(store, {"pages": 2})
        assert len(a.wants(2, {"pages": 1})) == 2
        assert len(a.wants(30, {"pages": 0})) == 30

    def test_all_bounds_are_taken_or_none(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, {"calls": 2, "pages": 100}, [(100, 60.0, "pages")])
        assert len(a.wants(1, {"pages": 60})) == 1
        assert b.wants(1, {"pages": 41}) == []
        assert {*b.waits[0]["blocked_by"]} == {PAGES, "pages/60000"}
        assert stored(store)["window_logs"]["pages/60000"]["sum"] == 60
        assert in_flight_sum(stored(store), "pages") == 60

    def test_what_a_call_took_is_free_when_it_is_given_back(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, {"pages": 10})
        held = a.wants(1, {"pages": 8})
        assert b.wants(1, {"pages": 3}) == []
        a.gives_back(held, units={"pages": 40})
        assert len(b.asks()) == 1
        assert in_flight_sum(stored(store), "pages") == 3

    def test_a_smaller_call_passes_only_if_it_takes_nothing_that_the_head_waits_for(
        self, store: LimitStore, a: Process, b: Process, start: Callable[[str], Process]
    ) -> None:
        define(store, {"calls": 9, "pages": 10})
        held = a.wants(1, {"pages": 6})
        assert b.wants(1, {"pages": 5}) == []
        assert start("c").wants(1, {"pages": 4}) == []
        assert len(start("d").wants(1, {"pages": 0})) == 1
        a.gives_back(held)
        assert len(b.asks()) == 1

    def test_a_call_too_large_for_the_bound_holds_up_nobody(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, {"pages": 10})
        assert a.wants(1, {"pages": 11}) == []
        assert a.waits[0]["blocked_by"] == ["too_large"]
        assert len(b.wants(1, {"pages": 10})) == 1

    @pytest.mark.parametrize("outcome", ["cut_off", "timed_out"])
    def test_a_call_that_was_cut_off_counts_what_it_took(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process, outcome: str
    ) -> None:
        define(store, {"pages": 10}, breaker_after=0)
        a.gives_back(a.wants(1, {"pages": 8}), outcome, {"pages": 9})
        assert in_flight_sum(stored(store), "pages") == 9
        assert b.wants(1, {"pages": 2}) == []
        clock.move(HELD - 1)
        assert b.asks() == []
        clock.move(1)
        assert len(b.asks()) == 1
        assert in_flight_sum(stored(store), "pages") == 2

    def test_what_a_dead_process_held_counts_until_its_calls_are_over(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, {"calls": 9, "pages": 10})
        a.wants(2, {"pages": 5})
        clock.move(LEASE)
        assert b.wants(1, {"pages": 1}) == []
        clock.move(HELD - LEASE)
        assert len(b.asks()) == 1

    def test_an_answer_has_how_much_of_each_unit_is_in_flight(self, store: LimitStore, a: Process) -> None:
        define(store, {"calls": 9, "pages": 10, "words": 100})
        a.wants(2, {"pages": 3, "words": 7})
        answer = a.exchanges()
        assert answer["in_flight_count"] == 2
        assert answer["in_flight_sums"] == [6, 14]
        assert a.beats()["in_flight_sums"] == [6, 14]

    def test_a_bound_that_is_new_counts_calls_that_are_out(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 9)
        held = a.wants(2, {"pages": 4})
        put(store, "operator", in_flight={"calls": 9, "pages": 10})
        assert b.wants(1, {"pages": 3}) == []
        a.gives_back(held[:1])
        assert len(b.asks()) == 1

    def test_a_bound_that_is_lowered_stops_nobody(self, store: LimitStore, a: Process) -> None:
        define(store, {"calls": 9, "pages": 10})
        held = a.wants(2, {"pages": 5})
        put(store, "operator", in_flight={"calls": 9, "pages": 6})
        assert a.wants(1, {"pages": 1}) == []
        a.gives_back(held[:1])
        assert len(a.calls) == 2

    def test_a_bound_of_nought_pauses_the_limit(self, store: LimitStore, a: Process) -> None:
        define(store, {"calls": 9, "pages": 0})
        assert a.wants(1, {"pages": 0}) == []
        assert a.waits[0]["blocked_by"] == ["paused"]

    def test_a_bound_of_calls_alone_leaves_those_of_units(self, store: LimitStore, a: Process) -> None:
        define(store, {"calls": 9, "pages": 10})
        put(store, "operator", in_flight=5)
        assert a.wants(1, {"pages": 11}) == []
        put(store, "operator", in_flight={"calls": 5})
        assert len(a.asks()) == 1

    def test_how_long_a_call_waits_follows_from_the_mean_call(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, {"calls": 9, "pages": 10})
        held = a.wants(2, {"pages": 5})
        clock.move(4 * SECOND)
        a.gives_back(held)
        a.wants(1, {"pages": 10})
        assert b.wants(1, {"pages": 5}) == []
        assert b.waits[0]["eta_ms"] == 2 * SECOND

    def test_a_store_that_forgot_counts_nothing_twice(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, {"calls": 9, "pages": 10})
        a.wants(2, {"pages": 5})
        a.version += 100
        a.beats()
        assert in_flight_sum(stored(store), "pages") == 0
        assert b.wants(1, {"pages": 1}) == []
        clock.move(MINUTE + 3 * SECOND)
        assert len(b.asks()) == 1
        assert in_flight_sum(stored(store), "pages") == 1

    def test_never_more_of_a_unit_at_once_whatever_comes(
        self, store: LimitStore, clock: HandClock, start: Callable[[str], Process]
    ) -> None:
        chance = chances(7)
        define(store, {"calls": 6, "pages": 20}, breaker_after=0)
        processes = [start(f"p{at}") for at in range(3)]
        units: dict[tuple[str, int], int] = {}
        most = 0
        for _ in range(150):
            process = chance.choice(processes)
            process.ends([call for call in process.calls if chance.random() < 0.5])
            pages = chance.randint(0, 9)
            granted = process.wants(chance.randint(1, 3), {"pages": pages})
            units |= {(process.sid, call): pages for call in granted}
            process.line.clear()
            process.exchanges()
            used = sum(units[each.sid, call] for each in processes for call in each.calls)
            assert used <= 20
            assert used == in_flight_sum(stored(store, LIMIT), "pages")
            most = max(most, used)
            clock.move(chance.choice([0, 20, 400]))
        assert most > 15
