"""Promises of the cool-down: a whole limit rests after a refusal or a row of failures, and comes back step by step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import HOUR, SECOND, LimitCase, define, resume, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import Process

STEPS = (2, 4, 8, 16, 30)


def free_again(clock: HandClock, process: Process) -> int:
    """How long until it is let in, found by asking at every instant that it was told; one caller must wait."""
    began = clock.steady
    for _ in range(10_000):
        if got := process.asks():
            process.ends(got)
            return clock.steady - began
        clock.move(process.waits[0]["ask_again_in_ms"])
    raise AssertionError("it is never let in")


class CoolDownPromises(LimitCase):
    def test_nothing_is_granted_to_anybody_before_the_end(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 50)
        clock.move(1)
        a.wants(2)
        a.refused(clock.shown, 7 * SECOND)
        for wait in (0, SECOND, 6 * SECOND - 1):
            clock.move(wait)
            for process in (a, b):
                assert process.wants() == []
                assert process.waits[0]["blocked_by"] == ["cooldown"]
        assert b.waits[0]["eta_ms"] == 1
        clock.move(1)
        assert len(a.asks()) + len(b.asks()) == 1

    def test_without_a_hint_the_rest_gets_longer_with_each_episode(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 1)
        clock.move(1)
        rests = []
        held = a.wants()
        for _ in range(7):
            a.ends(held, "failed")
            at = a.calls.get(held[0], a.grants[-1]["granted_at"])
            a.refused(at)
            a.joins()
            began = clock.steady
            while not (held := a.asks()):
                clock.move(a.waits[0]["ask_again_in_ms"])
            rests.append((clock.steady - began) // SECOND)
            clock.move(1)
        assert rests == [2, 4, 8, 16, 30, 30, 30]

    def test_many_who_see_the_same_refusal_make_one_episode(
        self, store: LimitStore, clock: HandClock, start: Callable[[str], Process]
    ) -> None:
        define(store, 50)
        clock.move(1)
        crowd = [start(f"p{at}") for at in range(5)]
        for process in crowd:
            process.wants(3)
        for process in crowd:
            clock.move(100)
            for at in [*process.calls.values()]:
                process.refused(at)
        assert stored(store)["cooldown"]["level"] == 1
        assert stored(store)["cooldown"]["ends_at"] == clock.shown - 400 + 2 * SECOND

    def test_a_longer_hint_makes_it_longer_and_a_shorter_one_never_shorter(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 50)
        clock.move(1)
        a.wants()
        b.wants()
        a.refused(clock.shown, 10 * SECOND)
        until = clock.shown + 10 * SECOND
        b.refused(b.calls[1], 3 * SECOND)
        b.refused(b.calls[1])
        b.refused(b.calls[1], 0)
        assert stored(store)["cooldown"]["ends_at"] == until
        b.refused(b.calls[1], 20 * SECOND)
        assert stored(store)["cooldown"]["ends_at"] == clock.shown + 20 * SECOND
        assert stored(store)["cooldown"]["level"] == 1

    def test_a_later_episode_with_a_shorter_hint_does_not_shorten_it_either(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 50, cooldown_s=(30,))
        clock.move(1)
        a.wants(1)
        a.refused(clock.shown, 30 * SECOND)
        until = stored(store)["cooldown"]["ends_at"]
        clock.move(SECOND)
        a.refused(clock.shown, SECOND)
        assert stored(store)["cooldown"]["ends_at"] == until

    @pytest.mark.parametrize("jitter", [0, 250])
    def test_a_hint_is_believed_up_to_the_longest_rest(
        self, store: LimitStore, clock: HandClock, a: Process, jitter: int
    ) -> None:
        define(store, 5, max_cooldown_s=60.0)
        clock.move(1)
        a.wants()
        a.refused(clock.shown, HOUR, jitter=jitter)
        assert stored(store)["cooldown"]["ends_at"] == clock.shown + 60 * SECOND
        a.refused(0, 2 * HOUR)
        assert stored(store)["cooldown"]["ends_at"] == clock.shown + 60 * SECOND

    def test_jitter_makes_it_longer_never_shorter(self, store: LimitStore, clock: HandClock, a: Process) -> None:
        define(store, 5)
        clock.move(1)
        a.wants()
        a.refused(clock.shown, 10 * SECOND, jitter=250)
        assert stored(store)["cooldown"]["ends_at"] == clock.shown + 12_500

    def test_an_exhausted_quota_parks_longer_than_any_rest(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 5)
        clock.move(1)
        a.wants(2)
        a.refused(clock.shown, 5 * HOUR, kind="quota")
        # Some that were on their way are merely refused, which changes nothing.
        a.refused(clock.shown, SECOND)
        clock.move(SECOND)
        a.refused(clock.shown, SECOND)
        assert b.wants() == []
        assert b.waits[0]["blocked_by"] == ["quota"]
        clock.move(5 * HOUR - SECOND - 1)
        assert b.asks() == []
        clock.move(1)
        assert len(b.asks()) == 1

    def test_a_quota_that_does_not_say_how_long_parks_for_the_longest_rest(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 5, max_cooldown_s=100.0)
        clock.move(1)
        a.wants(2)
        a.refused(clock.shown, kind="quota")
        assert a.wants() == []
        assert a.waits[0] == {
            "ask_again_in_ms": 5 * SECOND,
            "eta_ms": 100 * SECOND,
            "ahead_count": 0,
            "blocked_by": ["quota"],
        }

    def test_a_success_after_it_makes_the_next_one_short_again(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 5)
        clock.move(1)
        a.wants(2)
        for _ in range(3):
            a.refused(clock.shown, 0)
            clock.move(1)
        assert stored(store)["cooldown"]["level"] == 3
        a.gives_back([1])
        assert stored(store)["cooldown"]["level"] == 3  # it was granted before
        a.gives_back(a.wants())
        assert stored(store)["cooldown"]["level"] == 0

    def test_afterwards_one_is_let_in_then_two_then_four_until_all_are(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 12)
        clock.move(1)
        a.wants(1)
        a.refused(clock.shown, 2 * SECOND)
        a.ends(a.calls)
        a.joins(100)
        clock.move(2 * SECOND)
        let_in = []
        for _ in range(5):
            let_in.append(len(a.asks()))
            assert a.asks() == []
            clock.move(SECOND - 1)
            assert a.asks() == []
            clock.move(1)
            a.ends(a.calls)
        assert let_in == [1, 2, 4, 8, 12]

    def test_one_who_waits_for_the_ramp_is_told_so_and_when_it_goes_on(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 12)
        clock.move(1)
        a.wants(1)
        a.refused(clock.shown, 2 * SECOND)
        clock.move(2 * SECOND)
        a.wants(5)
        clock.move(300)
        a.asks()
        assert a.waits[0] == {"ask_again_in_ms": 700, "eta_ms": 700, "ahead_count": 0, "blocked_by": ["ramp"]}

    def test_a_refusal_on_the_ramp_begins_anew(self, store: LimitStore, clock: HandClock, a: Process) -> None:
        define(store, 12)
        clock.move(1)
        a.wants(1)
        a.refused(clock.shown, 2 * SECOND)
        a.joins(50)
        clock.move(2 * SECOND)
        a.asks()
        clock.move(SECOND)
        assert len(a.asks()) == 2
        a.refused(clock.shown, SECOND)
        clock.move(SECOND)
        assert len(a.asks()) == 1

    def test_a_late_refusal_of_an_old_call_begins_with_one_probe_again(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 12)
        clock.move(1)
        a.wants(2)
        a.refused(clock.shown, 2 * SECOND)
        a.joins(50)
        clock.move(60 * SECOND)
        a.asks()
        clock.move(60 * SECOND)
        assert len(a.asks()) > 5
        a.ends([*a.calls][3:])
        a.refused(a.calls[1], 5 * SECOND)
        assert a.waits[0]["blocked_by"][0] == "cooldown"
        clock.move(5 * SECOND)
        assert len(a.asks()) == 1

    def test_failures_in_a_row_of_the_whole_fleet_rest_it_too(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 50, breaker_after=4)
        clock.move(1)
        a.wants(6)
        b.wants(3)
        a.gives_back([1, 2], "failed")
        b.gives_back([1], "failed")
        assert len(a.wants()) == 1
        a.gives_back([3], "failed")
        assert b.wants() == []
        assert b.waits[0]["blocked_by"] == ["breaker"]
        # The others were granted before it, and say nothing new.
        a.gives_back([4, 5, 6], "failed")
        assert stored(store)["cooldown"]["level"] == 1
        clock.move(2 * SECOND)
        assert len(b.asks()) == 1

    def test_failures_with_a_success_between_them_are_no_row(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 50, breaker_after=2)
        clock.move(1)
        for _ in range(5):
            first, second, third = a.wants(3)
            a.ends([first], "failed")
            a.ends([second])
            assert a.gives_back([third], "") == []
        a.gives_back(a.wants(), "failed")
        a.gives_back(a.wants(), "")
        a.gives_back(a.wants(), "failed")
        assert a.wants() == []

    def test_calls_that_could_not_reach_the_provider_count_nothing_and_open_the_breaker(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 50, [(3, 60.0)], breaker_after=3)
        clock.move(1)
        a.gives_back(a.wants(2), "unreached")
        first, *others = a.wants(3)
        assert len(others) == 2
        a.gives_back([first], "unreached")
        assert a.wants() == []
        assert a.waits[0]["blocked_by"][0] == "breaker"

    def test_a_limit_without_a_breaker_bears_any_failure(self, store: LimitStore, clock: HandClock, a: Process) -> None:
        define(store, 50, breaker_after=0)
        clock.move(1)
        for _ in range(20):
            a.gives_back(a.wants(), "failed")
        assert len(a.wants()) == 1

    def test_a_person_who_knows_better_ends_it_at_once(self, store: LimitStore, clock: HandClock, a: Process) -> None:
        define(store, 50)
        clock.move(1)
        a.wants()
        a.refused(clock.shown, 5 * HOUR, kind="quota")
        assert a.wants(20) == []
        resume(store)
        assert len(a.asks()) == 20
        a.refused(a.calls[1], 2 * SECOND)
        assert a.wants() == []
        assert a.waits[0]["blocked_by"] == ["cooldown"]
