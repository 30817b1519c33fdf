"""Promises of the forecast: who waits is told when, behind how many and for what, and for a window that is exact."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import LATE, SECOND, LimitCase, chances, define
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import Process


class ForecastPromises(LimitCase):
    @pytest.mark.parametrize("ahead", [0, 1, 2, 3, 6, 7, 14])
    def test_the_instant_that_a_window_opens_for_one_is_told_to_the_millisecond(
        self, store: LimitStore, clock: HandClock, start: Callable[[str], Process], ahead: int
    ) -> None:
        chance = chances(ahead)
        define(store, None, [(3, 2.0)])
        early, others, me = start("early"), start("others"), start("me")
        for _ in range(3):
            early.wants()
            clock.move(chance.randint(1, 300))
        if ahead:
            others.wants(ahead)
        me.wants()
        expected = clock.steady + me.waits[0]["eta_ms"]
        assert me.waits[0]["ahead_count"] == ahead
        while not me.calls:
            clock.move((others if others.line else me).waits[0]["ask_again_in_ms"])
            others.asks()
            me.asks()
        assert me.calls[1] == expected

    def test_windows_of_an_empty_log_are_told_too(self, store: LimitStore, a: Process) -> None:
        define(store, None, [(2, 1.0)])
        a.joins(7)
        a.asks()
        assert a.waits[0]["eta_ms"] == SECOND + LATE
        a.joins(1)
        assert a.exchanges()["waits"][0]["ahead_count"] == 0

    def test_calls_in_flight_are_told_by_how_long_calls_take(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 2)
        for _ in range(20):
            held = a.wants(2)
            clock.move(6 * SECOND)
            a.gives_back(held)
        a.wants(2)
        b.wants(4)
        c = Process(store, clock, "c")
        c.wants()
        assert c.waits[0]["ahead_count"] == 4
        # Five must end before it, two at a time, six seconds each.
        assert 12 * SECOND <= c.waits[0]["eta_ms"] <= 18 * SECOND
        assert b.exchanges()["waits"][0]["eta_ms"] <= 6 * SECOND

    def test_before_any_call_has_ended_the_timeout_is_what_is_known(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 1, call_timeout_s=30.0)
        a.wants()
        b.wants()
        assert b.waits[0]["eta_ms"] == 30 * SECOND

    def test_all_that_one_waits_for_is_named(self, store: LimitStore, clock: HandClock, a: Process, b: Process) -> None:
        define(store, 1, [(1, 60.0), (5, 60.0, "pages")])
        clock.move(1)
        a.wants(1, {"pages": 5})
        a.refused(clock.shown, SECOND)
        b.wants(1, {"pages": 1})
        assert b.waits[0]["blocked_by"] == ["cooldown", "in_flight", "calls/60000", "pages/60000"]

    def test_who_is_alone_in_front_is_told_to_ask_when_it_can_be_let_in_and_who_is_behind_asks_rarely(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, None, [(1, 1.0)])
        a.wants()
        clock.move(100)
        a.wants()
        b.wants()
        assert a.waits[0]["ask_again_in_ms"] == SECOND + LATE - 100
        assert SECOND + LATE - 100 < b.waits[0]["ask_again_in_ms"] <= 5 * SECOND

    def test_nobody_who_waits_asks_less_often_than_every_few_seconds(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 1, [(1, 86_400.0)])
        a.wants()
        b.wants()
        assert b.waits[0]["ask_again_in_ms"] == 5 * SECOND

    def test_who_has_nobody_waiting_is_told_nothing_but_how_many_others_wait(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 1)
        a.wants()
        assert b.wants(3) == []
        answer = a.exchanges()
        assert (answer["waits"], answer["other_caller_count"], answer["session_count"]) == ([], 3, 2)
        assert b.exchanges()["other_caller_count"] == 0
