"""Promises of freshness: a slow store gets grants that may be older, and windows count these for as much longer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.bounding import most_in
from forebay.testing.limits.case import LATE, SECOND, START, TRANSIT, LimitCase, chances, define, put, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import Process

W = 20 * SECOND
MOST = W // 20


def most_that_arrive_in(
    store: LimitStore, clock: HandClock, start: Callable[[str], Process], *, steps: int = 150
) -> tuple[int, int]:
    """Return the most calls that arrive in a window of 5, and how many different ages grants were allowed.

    Every second call is as late as its grant allows, the others are as early.
    """
    chance = chances(11)
    define(store, None, [(5, W / 1000)])
    processes = [start(f"p{at}") for at in range(3)]
    for _ in range(steps):
        process = chance.choice(processes)
        process.delay = chance.choice([0, 0, 0, 400, 3000])
        process.ends(process.calls)
        if chance.random() < 0.2 and process.calls:
            process.starts.append(next(iter(process.calls)))
        process.wants(chance.randint(1, 3))
        process.line.clear()
        process.exchanges()
        clock.move(chance.choice([1, 300, 1500, W + LATE]))
    grants = [grant for process in processes for grant in process.grants]
    instants = []
    for grant in grants:
        late = chance.choice([0, grant["max_age_ms"] + TRANSIT])
        instants += [(grant["granted_at"] + late, 1)] * grant["call_count"]
    return most_in(sorted(instants), W), len({grant["max_age_ms"] for grant in grants})


class FreshPromises(LimitCase):
    def test_grants_may_be_as_old_as_a_slow_process_needs(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, None, [(9, 60.0)])
        a.wants()
        assert a.grants[-1]["max_age_ms"] == START
        a.delay = 1000
        a.wants()
        assert a.grants[-1]["max_age_ms"] == 1500
        b.wants()
        assert b.grants[-1]["max_age_ms"] == 1500

    @pytest.mark.parametrize(("per_s", "most"), [(1.0, START), (20.0, 1000), (60.0, 2000)])
    def test_a_grant_is_never_older_than_a_twentieth_of_the_shortest_window(
        self, store: LimitStore, a: Process, per_s: float, most: int
    ) -> None:
        define(store, None, [(9, 100.0), (9, per_s)])
        a.delay = 50 * SECOND
        a.wants()
        assert a.grants[-1]["max_age_ms"] == most

    def test_a_process_that_is_quick_enough_changes_nothing(self, store: LimitStore, a: Process) -> None:
        define(store, None, [(9, 60.0)])
        a.delay = START
        a.wants()
        assert a.grants[-1]["max_age_ms"] == START
        assert stored(store)["freshness_ms"] == 0

    def test_where_no_window_counts_calls_nothing_changes(self, store: LimitStore, a: Process) -> None:
        define(store, 9)
        a.delay = 1000
        a.wants()
        assert a.grants[-1]["max_age_ms"] == 2 * SECOND
        assert stored(store)["freshness_ms"] == 0

    def test_a_grant_that_may_start_later_counts_longer(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, None, [(1, W / 1000)])
        a.delay = 600
        a.wants()
        clock.move(W + 900 + TRANSIT)
        assert b.wants() == []
        assert b.waits[0]["ask_again_in_ms"] == 1
        clock.move(1)
        assert len(b.asks()) == 1

    def test_grants_are_as_fresh_as_before_when_nobody_has_been_slow_for_a_window(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, None, [(100, W / 1000)])
        a.delay = 600
        a.wants()
        a.delay = 0
        clock.move(W + LATE + MOST - 1)
        a.wants()
        assert a.grants[-1]["max_age_ms"] == 900
        clock.move(1)
        a.wants()
        assert a.grants[-1]["max_age_ms"] == START

    def test_a_call_that_starts_late_counts_as_its_new_grant_does(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, None, [(1, W / 1000)])
        [call] = a.wants()
        clock.move(SECOND)
        a.delay = 600
        a.starts.append(call)
        [stamp] = a.exchanges()["restamps"]
        assert stamp["max_age_ms"] == 900
        clock.move(W + 900 + TRANSIT)
        assert b.wants() == []
        clock.move(1)
        assert len(b.asks()) == 1

    def test_what_was_never_sent_is_taken_back_from_where_it_counts(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, None, [(1, W / 1000)])
        a.delay = 600
        a.gives_back(a.wants(), "unsent")
        assert len(b.wants()) == 1

    def test_a_window_that_is_new_counts_calls_as_late_as_they_may_start(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, None, [(9, W / 1000)])
        a.delay = 600
        a.wants()
        put(store, "operator", windows=[[9, W / 1000, "calls"], [1, 40.0, "calls"]])
        clock.move(2 * W + 900 + TRANSIT)
        assert b.wants() == []
        clock.move(1)
        assert len(b.asks()) == 1

    def test_no_more_arrive_in_any_span_however_late_they_start(
        self, store: LimitStore, clock: HandClock, start: Callable[[str], Process]
    ) -> None:
        most, ages = most_that_arrive_in(store, clock, start)
        assert most <= 5
        assert ages > 2
