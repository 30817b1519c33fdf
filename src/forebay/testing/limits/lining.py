"""Promises of the line: first come, first served; keys take turns; who needs much is neither starved nor starves."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from forebay.model.limit_record import Record
from forebay.rules import limit_state
from forebay.rules import window_log as logs
from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import LATE, MINUTE, SECOND, LimitCase, chances, define, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import Process


def head_start(record: Record, units: dict[str, int], now: int) -> int:
    """When a call may start if it alone is waited for, found by trying: the log is copied and time moved on."""
    terms = record["eras"][0]["terms"]
    at = now
    while True:
        used = [
            sum(
                log["entries"][index + 1]
                for index in range(0, len(log["entries"]), 2)
                if log["entries"][index] + bound["per_ms"] + terms["start_within_ms"] + terms["transit_ms"] + 1 > at
            )
            for bound in terms["windows"]
            for log in [record["window_logs"].get(logs.name(bound), {"sum": 0, "entries": []})]
        ]
        wanted = [units.get(bound["unit"], 0) for bound in terms["windows"]]
        if all(so_far + more <= bound["n"] for so_far, more, bound in zip(used, wanted, terms["windows"], strict=True)):
            return at
        at += 1


class LinePromises(LimitCase):
    def test_first_come_first_served_across_processes(
        self, store: LimitStore, clock: HandClock, start: Callable[[str], Process]
    ) -> None:
        define(store, 1)
        holder = start("holder")
        held = holder.wants()
        crowd = [start(f"p{at}") for at in (3, 1, 2, 0, 4)]
        for process in [*crowd, *crowd]:
            process.wants()
            clock.move(1)
        served = []
        holder.gives_back(held)
        for _ in range(10):
            for process in crowd:
                process.beats()
            [(sid, call)] = [(process.sid, call) for process in crowd for call in process.calls]
            served.append(sid)
            next(process for process in crowd if process.sid == sid).gives_back([call])
        assert served == [process.sid for process in [*crowd, *crowd]]

    def test_one_who_comes_later_stands_behind_even_if_the_store_is_asked_first_for_it(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 1)
        held = a.wants()
        b.wants()
        a.wants()
        assert (a.waits[0]["ahead_count"], b.exchanges()["waits"][0]["ahead_count"]) == (1, 0)
        a.gives_back(held)
        assert b.beats()["grants"] or len(b.calls) == 1
        assert not a.calls

    def test_two_keys_share_alike_however_many_wait_for_one(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 1, [(1000, 60.0)])
        a.wants(1000, key="huge")
        b.wants(10, key="small")
        counts = {"a": 0, "b": 0}
        for _ in range(21):
            for process in (a, b):
                process.beats()
                counts[process.sid] += len(process.calls)
                process.gives_back(process.calls)
            clock.move(1)
            assert not b.line or abs(counts["a"] - counts["b"]) <= 1
        assert counts["b"] == 10

    def test_keys_share_by_what_they_take_not_by_how_many_they_are(self, store: LimitStore, a: Process) -> None:
        define(store, None, [(1000, 1.0, "pages")], start_within_s=0.01, transit_s=0)
        a.joins(300, {"pages": 10}, key="heavy")
        a.joins(3000, {"pages": 1}, key="light")
        a.asks()
        taken = {
            run: sum(g["call_count"] * a.units[run]["pages"] for g in a.grants if g["run_id"] == run) for run in (1, 2)
        }
        assert sum(taken.values()) == 1000
        assert abs(taken[1] - taken[2]) <= 10

    def test_a_key_that_comes_late_has_not_saved_up(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 1)
        a.wants(100, key="early")
        for _ in range(20):
            a.gives_back(a.calls)
        b.wants(10, key="late")
        served = []
        for _ in range(8):
            for process in (a, b):
                process.beats()
                if process.calls:
                    served.append(process.sid)
                    process.gives_back(process.calls)
        assert abs(served.count("a") - served.count("b")) <= 1

    def test_who_was_in_already_goes_first(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 1)
        held = a.wants()
        b.wants(5)
        a.joins(1, front=True)
        assert a.exchanges()["waits"][0]["ahead_count"] == 0
        assert len(a.gives_back(held)) == 1

    def test_several_who_were_in_already_go_in_the_order_they_came(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 1)
        held = a.wants()
        b.wants(1, front=True)
        a.wants(1, front=True)
        a.gives_back(held)
        b.beats()
        assert (len(a.calls), len(b.calls)) == (0, 1)

    def test_who_gives_up_leaves_no_trace(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 1, [(3, 60.0)])
        held = a.wants()
        run = b.joins(5)
        b.asks()
        b.leaves(run, 3)
        b.asks()
        assert [each["caller_count"] for each in stored(store)["sessions"]["b"]["runs"]] == [2]
        b.leaves(run)
        b.asks()
        assert stored(store)["sessions"]["b"]["runs"] == []
        assert len(a.gives_back(held)) == 0
        assert len(a.wants()) == 1

    def test_who_gave_up_before_it_heard_gives_the_call_back_unsent(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 1, [(2, 60.0)])
        held = a.wants()
        run = b.joins()
        b.asks()
        a.gives_back(held)
        b.leaves(run)
        [call] = b.asks()
        b.gives_back([call], "unsent")
        assert len(a.wants()) == 1

    def test_callers_who_come_while_others_of_the_run_are_served_unheard_are_counted_right(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 2)
        held = a.wants(2)
        run = b.joins(2)
        b.asks()
        a.gives_back(held[:1])
        b.line[run]["caller_count"] += 1
        b.asks()
        assert (len(b.calls), b.line[run]["caller_count"]) == (1, 2)
        b.asks()
        assert [each["caller_count"] for each in stored(store)["sessions"]["b"]["runs"]] == [2]

    def test_small_ones_pass_a_large_one_that_they_do_not_delay(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, None, [(10, 10.0, "pages"), (10, 60.0)])
        a.wants(1, {"pages": 6})
        clock.move(SECOND)
        assert a.wants(1, {"pages": 8}) == []
        # Beside 8 there is room for 2 when the first 6 are over, so two may go now and the third may not.
        assert len(b.wants(3, {"pages": 1})) == 2
        clock.move(9 * SECOND + LATE)
        assert len(a.asks()) == 1

    def test_small_ones_do_not_take_the_last_place_that_a_large_one_will_need(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 3, [(10, 10.0, "pages")])
        a.wants(1, {"pages": 6})
        a.wants(1, {"pages": 8})
        assert len(b.wants(5, {"pages": 0})) == 1

    @pytest.mark.parametrize("random_state", range(12))
    def test_a_large_one_starts_as_early_as_if_nobody_had_passed_it(
        self, store: LimitStore, clock: HandClock, start: Callable[[str], Process], random_state: int
    ) -> None:
        chance = chances(random_state)
        define(store, None, [(20, 2.0, "pages"), (8, 3.0)], start_within_s=0.01, transit_s=0)
        early, large, small = start("early"), start("large"), start("small")
        for _ in range(4):
            early.wants(1, {"pages": chance.randint(1, 6)})
            early.line.clear()
            early.asks()
            clock.move(chance.randint(1, 400))
        units = {"calls": 1, "pages": chance.randint(10, 20)}
        expected = head_start(copy.deepcopy(stored(store)), units, clock.shown)
        large.wants(1, units)
        passed = 0
        while not large.calls:
            passed += len(small.wants(1, {"pages": chance.randint(0, 6)}))
            small.line.clear()
            small.asks()
            clock.move(min(chance.randint(1, 150), max(1, expected - clock.shown)))
            large.asks()
            assert clock.shown <= expected
        assert large.calls[1] == expected

    def test_the_first_of_the_line_is_let_in_at_the_instant_that_it_was_told(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 2, [(2, 1.0), (5, 7.0)], call_timeout_s=1.0)
        a.joins(12)
        a.asks()
        for _ in range(40):
            a.ends(a.calls)
            a.asks()
            if not a.line:
                break
            clock.move(a.waits[0]["ask_again_in_ms"])
        assert not a.line
        assert clock.steady - a.grants[0]["granted_at"] <= 2 * (7 * SECOND + LATE) + SECOND + LATE

    def test_a_call_of_nothing_passes_a_full_window_but_not_a_full_house(
        self, store: LimitStore, a: Process, clock: HandClock
    ) -> None:
        define(store, 3, [(5, 60.0, "pages")])
        a.wants(1, {"pages": 5})
        assert len(a.wants(2, {"pages": 0})) == 2
        assert a.wants(1, {"pages": 0}) == []
        clock.move(MINUTE)
        record = stored(store)
        assert limit_state.in_flight(record) == 3
