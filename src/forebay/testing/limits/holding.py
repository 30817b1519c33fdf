"""Promises of what is held: by whom, for how long after a death, and that nobody else gives it back."""

from __future__ import annotations

import pytest

from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import HELD, LEASE, SECOND, LimitCase, define, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import Process


class HoldPromises(LimitCase):
    def test_a_call_of_a_dead_process_counts_while_its_provider_may_work_on_it(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 1)
        a.wants()
        clock.move(HELD - 1)
        assert b.wants() == []
        assert b.waits[0]["ask_again_in_ms"] == 1
        clock.move(1)
        assert len(b.asks()) == 1

    def test_a_call_of_a_dead_process_counts_at_least_as_long_as_its_session(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 1, call_timeout_s=1.0)
        a.wants()
        clock.move(LEASE - 1)
        assert b.wants() == []
        clock.move(1)
        assert len(b.asks()) == 1

    def test_a_provider_that_stops_with_its_client_is_free_when_the_session_ends(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 1, on_disconnect="stops")
        a.wants()
        clock.move(LEASE - 1)
        assert b.wants() == []
        clock.move(1)
        assert len(b.asks()) == 1

    def test_a_heartbeat_keeps_all_that_a_process_holds(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 2, call_timeout_s=1.0)
        held = a.wants(2)
        for _ in range(20):
            clock.move(LEASE - 1)
            a.beats()
            assert b.wants() == []
            b.line.clear()
        a.gives_back(held)
        assert len(b.wants(2)) == 2

    def test_only_what_the_dead_one_held_comes_back(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 5, on_disconnect="stops")
        a.wants(2)
        b.wants(3)
        clock.move(LEASE - 1)
        b.beats()
        clock.move(1)
        assert len(b.wants(5)) == 2

    def test_what_a_dead_process_waited_for_is_gone_with_its_session(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 1)
        held = b.wants()
        a.wants(5)
        assert b.wants() == []
        assert b.waits[0]["ahead_count"] == 5
        for _ in range(2):
            clock.move(LEASE // 2)
            b.beats()
        assert len(b.gives_back(held)) == 1
        assert "a" not in stored(store)["sessions"]

    @pytest.mark.parametrize("call_id", [0, 2, 99])
    def test_giving_back_what_one_does_not_hold_changes_nothing(
        self, store: LimitStore, a: Process, b: Process, call_id: int
    ) -> None:
        define(store, 2, [(2, 60.0)])
        a.wants()
        b.wants()
        assert b.gives_back([call_id], "unsent") == []
        assert a.wants() == []
        assert sum(len(seat["calls"]) for seat in stored(store)["sessions"].values()) == 2

    def test_giving_back_twice_gives_back_once(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 2, [(3, 60.0)])
        first, _ = a.wants(2)
        a.ends([first, first], "unsent")
        a.asks()
        a.gives_back([first], "unsent")
        assert len(b.wants(5)) == 1

    def test_numbers_of_calls_are_never_used_again(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 5)
        old = a.wants(2)
        clock.move(HELD)
        b.beats()
        assert "a" not in stored(store)["sessions"]
        answer = a.exchanges()
        assert answer["session_lost"] == 1
        new = a.wants(2)
        assert not {*old} & {*new}
        a.gives_back(old)
        assert len(stored(store)["sessions"]["a"]["calls"]) == 2

    def test_a_process_whose_session_was_dropped_hears_of_what_it_is_given_then(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 5)
        for _ in range(4):
            a.gives_back(a.wants())
        clock.move(HELD)
        b.beats()
        a.joins()
        asked = a.ask()
        store.exchange(a.limit, asked)
        a.takes(asked, store.exchange(a.limit, asked))
        assert len(a.calls) == 1

    def test_a_frozen_process_that_comes_back_in_time_has_all_that_it_had(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 2)
        held = a.wants(2)
        clock.move(LEASE + SECOND)
        assert b.wants() == []
        assert a.beats()["session_lost"] == 0
        clock.move(HELD)
        assert len(a.gives_back(held[:1])) == 0
