"""Promises of slots in hand: only where they are missing to nobody, counted like all others."""

from __future__ import annotations

from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import HELD, LATE, LEASE, SECOND, LimitCase, define, pause, resume, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process


class InHandPromises(LimitCase):
    def test_a_process_gets_slots_for_calls_to_come(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 20)
        assert len(a.wants(2, in_hand=3)) == 5
        assert [grant["call_count"] for grant in a.grants] == [5]
        assert b.exchanges()["in_flight_count"] == 5
        a.gives_back([*a.calls], "unsent")
        assert b.exchanges()["in_flight_count"] == 0

    def test_slots_in_hand_leave_half_of_a_limit_to_others(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 11)
        assert len(a.wants(in_hand=31)) == 5
        assert len(b.wants(in_hand=31)) == 1
        assert len(b.wants(9)) == 5

    def test_slots_in_hand_leave_half_of_the_units_in_flight_to_others(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, {"pages": 21})
        assert len(a.wants(units={"pages": 3}, in_hand=31)) == 3
        assert len(b.wants(units={"pages": 1}, in_hand=31)) == 1
        assert len(b.wants(units={"pages": 0}, in_hand=4)) == 5

    def test_slots_in_hand_leave_half_of_each_window_to_others(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, None, [(12, 1.0), (29, 1.0, "pages")])
        assert len(a.wants(units={"pages": 4}, in_hand=31)) == 3
        assert len(b.wants(units={"pages": 1}, in_hand=31)) == 2
        a.gives_back([*a.calls][1:], "unsent")
        assert len(b.wants(units={"pages": 1}, in_hand=31)) == 3
        clock.move(SECOND + LATE)
        assert len(b.wants(in_hand=31)) == 6

    def test_nobody_has_slots_in_hand_while_somebody_waits(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 20, [(9, 60.0, "pages")])
        held = b.wants(units={"pages": 9})
        b.wants(units={"pages": 1})
        assert len(a.wants(in_hand=5)) == 1
        b.gives_back(held, "unsent")
        assert len(a.wants(in_hand=5)) == 6

    def test_a_run_that_waits_gets_no_slots_in_hand(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 8, [(8, 60.0, "pages")])
        held = b.wants(units={"pages": 8})
        a.joins(1, {"pages": 1}, in_hand=5)
        assert a.asks() == []
        b.gives_back(held, "unsent")
        a.beats()
        assert len(a.calls) == 1

    def test_a_step_makes_no_more_grants_for_slots_in_hand(self, store: LimitStore, a: Process) -> None:
        define(store, 1000)
        a.joins(30, in_hand=31)
        answer = a.exchanges()
        assert (sum(grant["call_count"] for grant in answer["grants"]), answer["has_more"]) == (32, 0)

    def test_nobody_has_slots_in_hand_after_a_refusal(self, store: LimitStore, clock: HandClock, a: Process) -> None:
        define(store, 100)
        clock.move(1)
        [first] = a.wants()
        a.refused(a.calls[first], 1000)
        clock.move(SECOND)
        assert len(a.wants(in_hand=9)) == 1
        a.gives_back([*a.calls])
        for _ in range(6):
            clock.move(SECOND)
            assert len(a.wants(in_hand=9)) == 1
        clock.move(SECOND)
        assert len(a.wants(in_hand=9)) == 10

    def test_nobody_has_slots_in_hand_while_the_breaker_may_open(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 100, breaker_after=1)
        clock.move(1)
        a.gives_back(a.wants(), "failed")
        clock.move(60 * SECOND)
        assert len(a.wants(in_hand=9)) == 1

    def test_nobody_has_slots_in_hand_in_a_pause(self, store: LimitStore, a: Process) -> None:
        define(store, 100)
        pause(store)
        assert a.wants(in_hand=9) == []
        resume(store)
        a.line.clear()
        assert len(a.wants(in_hand=9)) == 10

    def test_a_repeated_request_gives_the_same_slots_in_hand(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 100)
        a.joins(1, in_hand=4)
        asked = a.ask()
        first = store.exchange(LIMIT, asked)
        clock.move(SECOND)
        again = store.exchange(LIMIT, asked)
        assert again["grants"] == first["grants"]
        a.takes(asked, again)
        assert (len(a.calls), stored(store)["sessions"]["a"]["runs"]) == (5, [])

    def test_slots_in_hand_of_a_process_that_died_count_like_its_calls(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 20)
        a.wants(in_hand=4)
        clock.move(LEASE)
        assert b.exchanges()["in_flight_count"] == 5
        for _ in range(HELD // LEASE):
            clock.move(LEASE - 1)
            b.beats()
        assert b.exchanges()["in_flight_count"] == 0

    def test_slots_in_hand_have_the_key_of_their_run(self, store: LimitStore, a: Process) -> None:
        define(store, 20)
        a.wants(key="tenant", in_hand=1)
        assert [call.get("key") for call in stored(store)["sessions"]["a"]["calls"]] == ["tenant", "tenant"]
