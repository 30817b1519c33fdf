"""Promises of the bounds: all of them or none in one step, exact at their edges, and never more in any span."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import pytest

from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import HOUR, LATE, MINUTE, SECOND, LimitCase, chances, define, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import Process


def most_in(instants: list[tuple[int, int]], wide: int) -> int:
    """The most units that any span of that length holds; of instants, rising, with their units."""
    most = within = first = 0
    for at, units in instants:
        within += units
        while instants[first][0] + wide <= at:
            within -= instants[first][1]
            first += 1
        most = max(most, within)
    return most


def granted(processes: Iterable[Process], unit: str) -> list[tuple[int, int]]:
    """Instants with their units, rising."""
    return sorted(
        (grant["granted_at"], grant["call_count"] * process.units[grant["run_id"]][unit])
        for process in processes
        for grant in process.grants
    )


class BoundPromises(LimitCase):
    def test_no_more_calls_at_once_than_the_bound(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 3)
        assert len(a.wants(2)) == 2
        assert len(b.wants(2)) == 1
        assert b.waits[0]["blocked_by"] == ["in_flight"]

    def test_a_call_that_ends_lets_exactly_one_in(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 2)
        held = a.wants(2)
        assert b.wants(3) == []
        a.gives_back(held[:1])
        assert len(b.asks()) == 1
        assert b.asks() == []

    def test_the_last_of_a_window_is_let_in_and_the_next_is_not(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, None, [(3, 1.0)])
        for _ in range(3):
            assert len(a.wants()) == 1
            clock.move(10)
        assert a.wants() == []
        assert a.waits[0]["blocked_by"] == ["calls/1000"]

    def test_a_grant_counts_to_the_last_millisecond_and_no_longer(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, None, [(1, 1.0)])
        a.wants()
        clock.move(SECOND + LATE - 1)
        assert a.wants() == []
        assert a.waits[0]["ask_again_in_ms"] == 1
        clock.move(1)
        assert len(a.asks()) == 1

    @pytest.mark.parametrize(("start_within_s", "transit_s"), [(0.01, 0.0), (1.0, 0.0), (0.01, 2.0)])
    def test_what_arrives_late_makes_the_window_longer(
        self, store: LimitStore, clock: HandClock, a: Process, start_within_s: float, transit_s: float
    ) -> None:
        define(store, None, [(1, 1.0)], start_within_s=start_within_s, transit_s=transit_s)
        a.wants()
        clock.move(SECOND + round(1000 * (start_within_s + transit_s)))
        assert a.wants() == []
        clock.move(1)
        assert len(a.asks()) == 1

    def test_all_bounds_hold_at_once_or_nothing_is_taken(self, store: LimitStore, clock: HandClock, a: Process) -> None:
        define(store, 9, [(2, 1.0), (100, 60.0, "pages")])
        assert len(a.wants(1, {"pages": 60})) == 1
        assert a.wants(1, {"pages": 60}) == []
        logs = stored(store)["window_logs"]
        assert (logs["calls/1000"]["sum"], logs["pages/60000"]["sum"]) == (1, 60)
        a.line.clear()
        assert len(a.wants(1, {"pages": 40})) == 1
        assert a.wants() == []
        assert a.waits[0]["blocked_by"] == ["calls/1000"]
        clock.move(SECOND + LATE)
        assert len(a.asks()) == 1

    def test_the_shortest_of_several_windows_opens_first_and_the_longest_closes_for_longest(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, None, [(2, 1.0), (5, 60.0)])
        got = 0
        for _ in range(5):
            got += len(a.wants(2))
            a.line.clear()
            clock.move(SECOND + LATE)
        assert got == 5

    @pytest.mark.parametrize("in_flight", [None, 7])
    def test_never_more_in_any_span_whatever_comes(
        self, store: LimitStore, clock: HandClock, start: Callable[[str], Process], in_flight: int | None
    ) -> None:
        chance = chances(5)
        define(store, in_flight, [(5, 1.0), (12, 4.0), (30, 3.0, "pages")])
        processes = [start(f"p{at}") for at in range(3)]
        for _ in range(150):
            process = chance.choice(processes)
            process.ends([call for call in process.calls if chance.random() < 0.7])
            process.wants(chance.randint(1, 4), {"pages": chance.randint(1, 9)})
            process.line.clear()
            assert in_flight is None or sum(len(each.calls) for each in processes) <= in_flight
            clock.move(chance.choice([0, 1, 20, 100, 400]))
        assert sum(grant["call_count"] for process in processes for grant in process.grants) > 30
        assert most_in(granted(processes, "calls"), SECOND + LATE) <= 5
        assert most_in(granted(processes, "calls"), 4 * SECOND + LATE) <= 12
        assert most_in(granted(processes, "pages"), 3 * SECOND + LATE) <= 30

    def test_a_call_that_took_more_than_it_reserved_counts_for_more(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, None, [(100, 60.0, "pages")])
        held = a.wants(1, {"pages": 10})
        clock.move(SECOND)
        a.gives_back(held, units={"pages": 130})
        assert a.wants(1, {"pages": 1}) == []
        # The first 10 are from a second earlier, but with 120 left that is not enough.
        assert a.waits[0]["eta_ms"] == MINUTE + LATE
        clock.move(MINUTE + LATE)
        assert len(a.asks()) == 1

    def test_a_call_that_took_less_gives_the_rest_back(self, store: LimitStore, a: Process) -> None:
        define(store, None, [(100, 60.0, "pages")])
        held = a.wants(1, {"pages": 100})
        assert a.wants(1, {"pages": 70}) == []
        assert len(a.gives_back(held, units={"pages": 30})) == 1

    def test_what_was_never_sent_is_given_back_whole(self, store: LimitStore, a: Process) -> None:
        define(store, 2, [(1, 60.0), (10, 60.0, "pages")])
        held = a.wants(1, {"pages": 10})
        assert a.gives_back(held, "unsent") == []
        assert len(a.wants(1, {"pages": 10})) == 1

    @pytest.mark.parametrize("outcome", ["ok", "failed", ""])
    def test_what_was_sent_stays_counted_however_it_ended(self, store: LimitStore, a: Process, outcome: str) -> None:
        define(store, 2, [(1, 60.0)], breaker_after=0)
        a.gives_back(a.wants(), outcome)
        assert a.wants() == []
        assert a.waits[0]["blocked_by"] == ["calls/60000"]

    def test_a_refused_call_stays_counted(self, store: LimitStore, a: Process, clock: HandClock) -> None:
        define(store, 2, [(1, 60.0)])
        held = a.wants()
        a.ends(held, "failed")
        a.refused(a.grants[0]["granted_at"], 0)
        clock.move(MINUTE + LATE - 1)
        assert a.wants() == []
        clock.move(1)
        assert len(a.asks()) == 1

    def test_a_refund_that_comes_after_its_window_takes_nothing_from_others(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, None, [(10, 1.0, "pages")])
        unsent, smaller = a.wants(2, {"pages": 5})
        clock.move(SECOND + LATE)
        assert len(b.wants(1, {"pages": 10})) == 1
        a.gives_back([unsent], "unsent")
        a.gives_back([smaller], units={"pages": 0})
        assert b.wants(1, {"pages": 1}) == []

    def test_a_call_too_large_for_a_window_is_told_so_and_holds_up_nobody(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, None, [(10, 1.0, "pages")])
        assert a.wants(1, {"pages": 11}) == []
        assert a.waits[0]["blocked_by"] == ["too_large"]
        assert len(b.wants(1, {"pages": 10})) == 1
        assert b.wants(1, {"pages": 10}) == []
        assert (b.waits[0]["ahead_count"], b.waits[0]["ask_again_in_ms"]) == (0, SECOND + LATE)
        clock.move(SECOND + LATE)
        assert len(b.asks()) == 1

    def test_a_window_of_thousands_stays_small_is_never_over_and_hardly_under(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        n, wide, each = 3000, 10 * SECOND + LATE, 5
        define(store, None, [(n, 10.0, "pages")])
        exact: deque[int] = deque()
        ideal = longest = 0
        for at in range(2400):
            a.wants(1, {"pages": each})
            a.line.clear()
            a.ends(a.calls)
            if at % 100 == 0:
                longest = max(longest, len(stored(store)["window_logs"]["pages/10000"]["entries"]))
            while exact and exact[0] + wide <= clock.steady:
                exact.popleft()
            if len(exact) < n // each:
                exact.append(clock.steady)
                ideal += each
            clock.move(15)
        assert longest <= 4 * 512
        assert most_in(granted([a], "pages"), wide) <= n
        assert 0.996 * ideal <= sum(units for _, units in granted([a], "pages")) <= ideal

    def test_a_window_of_a_month_costs_no_more_than_one_of_a_minute(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, None, [(10_000, 30 * 86_400.0)])
        for _ in range(700):
            a.ends(a.wants())
            clock.move(HOUR)
        assert len(stored(store)["window_logs"][f"calls/{30 * 24 * HOUR}"]["entries"]) <= 4 * 512
