"""Promises of time: a store's clock may be set wrong by an hour, and nobody gets in early or waits an hour for it."""

from __future__ import annotations

import pytest

from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.bounding import most_in
from forebay.testing.limits.case import HOUR, LATE, SECOND, LimitCase, chances, define, put, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process

WIDE = 10 * SECOND + LATE
SMALL = 2 * SECOND
"""A jump up to so much is not told from a clock that is a bit off."""


class TimePromises(LimitCase):
    @pytest.mark.parametrize("jump", [HOUR, -HOUR, 30 * SECOND, -30 * SECOND])
    def test_a_jump_neither_opens_a_window_nor_keeps_it_shut(
        self, store: LimitStore, clock: HandClock, a: Process, jump: int
    ) -> None:
        define(store, None, [(1, 10.0)])
        a.wants()
        clock.move(4 * SECOND)
        clock.jump(jump)
        assert a.wants() == []
        assert a.waits[0]["eta_ms"] == WIDE - 4 * SECOND
        clock.move(WIDE - 4 * SECOND - 1)
        assert a.asks() == []
        clock.move(1)
        assert len(a.asks()) == 1

    @pytest.mark.parametrize("jump", [HOUR, -HOUR])
    def test_a_jump_neither_drops_a_session_nor_keeps_a_dead_one(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process, jump: int
    ) -> None:
        define(store, 2, call_timeout_s=1.0)
        a.wants()
        b.wants()
        clock.jump(jump)
        clock.move(4 * SECOND)
        b.beats()
        clock.move(10 * SECOND)
        assert b.wants() == []
        clock.move(SECOND)
        assert len(b.asks()) == 1

    @pytest.mark.parametrize("jump", [HOUR, -HOUR])
    def test_a_jump_neither_ends_a_cool_down_nor_makes_it_endless(
        self, store: LimitStore, clock: HandClock, a: Process, jump: int
    ) -> None:
        define(store, 2)
        clock.move(1)
        a.wants()
        a.refused(clock.shown, 20 * SECOND)
        clock.jump(jump)
        clock.move(20 * SECOND - 1)
        a.beats()
        assert a.wants() == []
        clock.move(1)
        assert len(a.asks()) == 1

    def test_a_clock_set_back_that_only_newcomers_see_keeps_nothing_shut(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, None, [(1, 10.0)])
        a.wants()
        clock.move(4 * SECOND)
        clock.jump(-HOUR)
        # Nobody who remembers is there, so the four seconds are lost, but not the hour.
        assert b.wants() == []
        assert b.waits[0]["eta_ms"] == WIDE
        clock.move(WIDE)
        assert len(b.asks()) == 1

    def test_a_newcomer_who_sees_a_clock_set_back_first_hides_nothing_from_those_who_remember(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, None, [(1, 10.0)])
        a.wants()
        clock.jump(-HOUR)
        clock.move(4 * SECOND)
        b.beats()
        clock.move(WIDE - 4 * SECOND - 1)
        assert a.wants() == []
        clock.move(4 * SECOND + 1)
        assert len(a.asks()) == 1

    def test_a_person_who_looks_or_changes_something_hides_no_jump_back(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, None, [(1, 10.0)])
        a.wants()
        clock.jump(-HOUR)
        put(store, "operator", breaker_after=7)
        store.read(LIMIT)
        clock.move(WIDE - 1)
        assert a.wants() == []
        clock.move(1)
        assert len(a.asks()) == 1

    def test_one_who_counts_too_much_time_opens_no_window(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, None, [(1, 10.0)])
        b.beats()
        a.wants()
        clock.move(SECOND)
        b.joins()
        for _ in range(3):
            asked = b.ask()
            asked["elapsed_ms"] += 20 * SECOND
            b.takes(asked, store.exchange(LIMIT, asked))
        assert not b.calls
        clock.move(WIDE - SECOND - 1)
        assert b.asks() == []
        clock.move(1)
        assert len(b.asks()) == 1

    def test_one_who_counts_too_little_time_holds_up_nobody(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, None, [(1, 10.0)])
        b.beats()
        a.wants()
        for _ in range(10):
            clock.move(WIDE // 10)
            a.beats()
            asked = b.ask()
            asked["elapsed_ms"] = 0
            b.takes(asked, store.exchange(LIMIT, asked))
            b.seen, b.seen_at = asked["seen_at"], b.seen_at - WIDE // 10
        clock.move(10)
        assert len(a.wants()) == 1

    def test_time_never_goes_back_and_never_stands_still_for_long(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        chance = chances(9)
        define(store, 9)
        told = a.beats()["now"]
        behind = 0
        for _ in range(300):
            step = chance.choice([1, 200, 1000, 3000])
            clock.move(step)
            if chance.random() < 0.2:
                clock.jump(chance.choice([-HOUR, HOUR, -5000, 5000, -1500, 1500, -100]))
            now = chance.choice([a, b]).beats()["now"]
            assert now >= told
            behind = behind + step if now == told else 0
            assert behind <= SMALL + 3000
            told = now

    def test_never_more_in_any_span_while_the_clock_jumps_about(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        chance = chances(3)
        define(store, None, [(7, 3.0)])
        instants: list[tuple[int, int]] = []
        for process in (a, b):
            process.beats()
        for _ in range(400):
            clock.move(chance.choice([0, 10, 100, 900]))
            if chance.random() < 0.1:
                clock.jump(chance.choice([HOUR, -HOUR, 10 * SECOND, -10 * SECOND]))
            process = chance.choice([a, b])
            before = len(process.calls)
            process.wants(2)
            process.line.clear()
            process.asks()
            instants += [(clock.steady, 1)] * (len(process.calls) - before)
            if not chance.randrange(5):
                process.ends(process.calls)
        assert len(instants) > 100
        assert most_in(instants, 3 * SECOND + LATE) <= 7
        assert stored(store)["clock_offset_ms"] != 0
