"""Promises of calls that start late: they count from when they start, and are refused where that would not do."""

from __future__ import annotations

from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import HELD_WITH_WINDOWS, LATE, SECOND, START, LimitCase, define, pause, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import Process


def restarts(process: Process, call_id: int) -> bool:
    process.starts.append(call_id)
    answer = process.exchanges()
    return any(stamp["call_id"] == call_id for stamp in answer["restamps"])


class StartPromises(LimitCase):
    def test_a_call_that_starts_late_counts_from_then_on(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, None, [(1, 1.0), (3, 60.0)])
        [call] = a.wants()
        clock.move(SECOND)
        assert restarts(a, call)
        assert a.calls[call] == clock.shown
        clock.move(SECOND + LATE - 1)
        assert b.wants() == []
        clock.move(1)
        assert len(b.asks()) == 1
        assert {name: log["sum"] for name, log in stored(store)["window_logs"].items()} == {
            "calls/1000": 1,
            "calls/60000": 2,
        }

    def test_a_call_that_starts_late_is_held_from_then_on(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 1, [(9, 60.0)])
        [call] = a.wants()
        clock.move(SECOND)
        assert restarts(a, call)
        clock.move(HELD_WITH_WINDOWS - 1)
        assert b.wants() == []
        clock.move(1)
        assert len(b.asks()) == 1

    def test_no_window_is_exceeded_by_it(self, store: LimitStore, clock: HandClock, a: Process, b: Process) -> None:
        define(store, None, [(4, 2.0, "pages")])
        [call] = a.wants(1, {"pages": 3})
        clock.move(SECOND)
        b.wants(1, {"pages": 1})
        for _ in range(5):
            clock.move(SECOND)
            assert restarts(a, call)
            assert stored(store)["window_logs"]["pages/2000"]["sum"] <= 4
            assert b.wants(1, {"pages": 2}) == []
            b.line.clear()

    def test_a_call_older_than_a_window_has_to_ask_again(self, store: LimitStore, clock: HandClock, a: Process) -> None:
        define(store, None, [(5, 1.0), (9, 60.0)])
        [call] = a.wants()
        clock.move(SECOND + LATE - 1)
        assert restarts(a, call)
        clock.move(SECOND + LATE)
        assert not restarts(a, call)
        assert stored(store)["window_logs"]["calls/60000"]["sum"] == 1

    def test_no_call_starts_late_in_a_cool_down_or_a_pause(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 5, [(5, 60.0)])
        clock.move(1)
        first, second = a.wants(2)
        assert restarts(a, first)
        pause(store)
        assert not restarts(a, first)
        store.change(a.limit, lambda record, _: record | {"paused_until": -1} if record else None)
        a.refused(a.calls[second], 2 * SECOND)
        clock.move(2 * SECOND - 1)
        assert not restarts(a, second)
        clock.move(1)
        assert restarts(a, second)

    def test_a_call_that_is_not_held_cannot_start(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 5, [(5, 60.0)])
        [call] = a.wants()
        assert not restarts(a, 77)
        assert not restarts(b, call)
        a.gives_back([call])
        assert not restarts(a, call)

    def test_a_start_that_is_asked_for_twice_counts_once(self, store: LimitStore, clock: HandClock, a: Process) -> None:
        define(store, 5, [(5, 60.0)])
        [call] = a.wants()
        clock.move(100)
        a.starts.append(call)
        asked = a.ask()
        store.exchange(a.limit, asked)
        clock.move(100)
        again = store.exchange(a.limit, asked)
        assert again["restamps"] == [{"call_id": call, "granted_at": clock.shown, "max_age_ms": START}]
        assert stored(store)["window_logs"]["calls/60000"] == {"sum": 1, "entries": [clock.shown, 1]}
