"""Promises of configuration: layers in their order, changes that keep what is used, pause, resume, clear and reset."""

from __future__ import annotations

from typing import Any

import pytest

from forebay.errors import BadInput
from forebay.model.limit import Window
from forebay.model.limit_record import Record
from forebay.rules import limit_actions, limit_state, reports
from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.bounding import most_in
from forebay.testing.limits.case import (
    HELD,
    HELD_WITH_WINDOWS,
    LATE,
    LEASE,
    MINUTE,
    SECOND,
    START,
    TRANSIT,
    LimitCase,
    clear,
    define,
    pause,
    put,
    reset,
    resume,
    stored,
)
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process


def in_flight(process: Process) -> int:
    """How many calls at once its terms allow, as it is told."""
    process.tv = -1
    return process.exchanges()["terms"][0]["in_flight"]


class ConfigPromises(LimitCase):
    def test_windows_that_are_added_count_what_is_out_and_wait_until_it_has_started(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 10)
        clock.move(1)
        assert len(a.wants(4)) == 4
        clock.move(SECOND)
        define(store, 10, [(5, 10.0)])
        assert stored(store)["window_logs"]["calls/10000"]["sum"] == 4
        # A process that has not heard of it may start its calls until they are 2 s old.
        clock.move(2 * SECOND + TRANSIT - 1)
        assert b.wants() == []
        clock.move(1)
        assert len(b.asks()) == 1
        assert b.wants() == []
        clock.move(10 * SECOND + LATE + 2 * SECOND - START - 3 * SECOND - TRANSIT - 1)
        assert b.asks() == []
        clock.move(1)
        assert len(b.asks()) == 1

    def test_windows_that_are_added_wait_for_nothing_where_all_calls_have_started(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 10)
        a.wants(4)
        clock.move(2 * SECOND)
        define(store, 10, [(5, 10.0)])
        assert len(b.wants()) == 1

    def test_a_time_without_windows_makes_no_grant_that_outlasts_it(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 10, [(5, 10.0)])
        put(store, "override", for_ms=30 * SECOND, windows=[])
        clock.move(1)
        a.wants()
        assert [grant["max_age_ms"] for grant in a.grants] == [START]
        assert stored(store)["sessions"]["a"]["calls"][0]["call_until"] == clock.shown + HELD_WITH_WINDOWS

    def test_a_start_that_is_narrowed_keeps_what_was_granted_for_longer(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, None, [(1, 10.0)], start_within_s=1.25)
        a.wants()
        define(store, None, [(1, 10.0)], start_within_s=0.25)
        clock.move(10 * SECOND + LATE + SECOND - 1)
        assert b.wants() == []
        clock.move(1)
        assert len(b.asks()) == 1

    def test_what_never_counted_in_a_window_is_not_taken_back_from_others(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 100)
        out = a.wants(5)
        clock.move(3 * SECOND)
        define(store, 100, [(10, 3600.0)])
        assert len(b.wants(9)) == 5
        a.ends(out, "unsent")
        a.exchanges()
        assert stored(store)["window_logs"]["calls/3600000"]["sum"] == 5
        assert len(b.asks()) == 4

    def test_each_layer_goes_before_those_below_it_in_whatever_order_they_come(
        self, store: LimitStore, a: Process
    ) -> None:
        define(store, 1, layer="preset")
        for value, layer in ((50, "override"), (10, "code"), (40, "operator"), (20, "file")):
            put(store, layer, in_flight=value)
        for expected, layer in ((50, "override"), (40, "operator"), (20, "file"), (10, "code")):
            assert in_flight(a) == expected
            assert limit_actions.source_of(stored(store)["layers"], 0)["in_flight"] == layer
            clear(store, layer)
        assert in_flight(a) == 1

    def test_code_never_overwrites_an_operator(self, store: LimitStore, a: Process) -> None:
        define(store, 5)
        put(store, "operator", in_flight=2)
        for value in (5, 7, 100):
            define(store, value)
            assert in_flight(a) == 2
        clear(store, "operator")
        assert in_flight(a) == 100

    def test_a_layer_that_says_the_same_changes_nothing(self, store: LimitStore) -> None:
        define(store, 5, [(5, 60.0)])
        before = stored(store)
        assert define(store, 5, [(5, 60.0)]) is None
        assert stored(store) == before

    def test_an_override_ends_by_itself(self, store: LimitStore, clock: HandClock, a: Process) -> None:
        define(store, 5)
        put(store, "override", for_ms=MINUTE, in_flight=1)
        assert len(a.wants(9)) == 1
        for _ in range(59):
            clock.move(SECOND)
            a.beats()
        clock.move(SECOND - 1)
        assert a.asks() == []
        clock.move(1)
        answer = a.exchanges()
        assert answer["terms"][0]["in_flight"] == 5
        assert len(a.calls) == 5

    def test_an_override_can_be_ended_before(self, store: LimitStore, a: Process) -> None:
        define(store, 5)
        put(store, "override", for_ms=MINUTE, in_flight=1)
        clear(store, "override")
        assert len(a.wants(9)) == 5
        assert clear(store, "override") is None

    def test_overrides_of_different_layers_end_one_after_the_other(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 5)
        put(store, "operator", for_ms=2 * MINUTE, in_flight=3)
        put(store, "override", for_ms=MINUTE, in_flight=1)
        seen = []
        for _ in range(3):
            seen.append(in_flight(a))
            clock.move(MINUTE)
        assert seen == [1, 3, 5]

    def test_a_window_that_comes_back_after_an_override_has_counted_all_along(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, None, [(10, 20.0), (10, 20.0, "pages")])
        put(store, "override", for_ms=MINUTE, windows=[Window(9, 5.0)])
        instants = []
        for _ in range(90):
            got = a.wants(1, {"pages": 1})
            a.line.clear()
            instants += [(clock.steady, 1) for _ in got]
            if stored(store)["terms_version"] > 2:
                at = clock.steady
                since = [each for each in instants if each[0] > at - 20 * SECOND - LATE]
                assert len(since) <= 10 or not got
            clock.move(SECOND)
        assert most_in(instants, 5 * SECOND + LATE) <= 9
        assert most_in([each for each in instants if each[0] >= clock.steady - 30 * SECOND], 20 * SECOND + LATE) <= 10

    def test_a_lower_bound_ends_no_call_and_grants_nothing_until_they_have(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 5)
        held = a.wants(5)
        put(store, "operator", in_flight=2)
        assert len(stored(store)["sessions"]["a"]["calls"]) == 5
        assert b.wants(9) == []
        for call_id in held[:3]:
            a.gives_back([call_id])
            clock.move(1)
            assert b.asks() == []
        a.gives_back(held[3:4])
        assert len(b.asks()) == 1

    def test_a_higher_bound_is_in_force_at_once(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 2)
        a.wants(2)
        b.wants(9)
        put(store, "operator", in_flight=6)
        assert len(b.asks()) == 4

    @pytest.mark.parametrize("per_s", [30.0, 60.0, 120.0])
    def test_a_changed_window_counts_what_was_used_before(
        self, store: LimitStore, clock: HandClock, a: Process, per_s: float
    ) -> None:
        define(store, None, [(5, 60.0)])
        a.wants(5)
        clock.move(20 * SECOND)
        put(store, "operator", windows=[Window(7, per_s)])
        assert len(a.wants(9)) == 2
        clock.move(int(per_s * SECOND) + LATE - 20 * SECOND - 1)
        assert a.asks() == []
        clock.move(1)
        assert len(a.asks()) == 5

    def test_a_window_made_smaller_grants_nothing_until_it_has_run_down(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, None, [(5, 60.0)])
        for _ in range(5):
            a.wants()
            clock.move(SECOND)
        put(store, "operator", windows=[Window(2, 60.0)])
        a.wants()
        assert a.waits[0]["eta_ms"] == MINUTE + LATE - 5 * SECOND + 3 * SECOND
        clock.move(a.waits[0]["eta_ms"] - 1)
        assert a.asks() == []
        clock.move(1)
        assert len(a.asks()) == 1

    @pytest.mark.parametrize("values", [{"in_flight": 0}, {"windows": [Window(0, 60.0)]}])
    def test_nought_pauses(self, store: LimitStore, clock: HandClock, a: Process, values: dict[str, Any]) -> None:
        define(store, 5)
        put(store, "override", **values)
        assert a.wants() == []
        assert a.waits[0]["blocked_by"] == ["paused"]
        clock.move(MINUTE)
        assert a.asks() == []
        clear(store, "override")
        assert len(a.asks()) == 1

    def test_a_pause_lasts_until_it_is_ended(self, store: LimitStore, clock: HandClock, a: Process) -> None:
        define(store, 5)
        pause(store)
        assert a.wants() == []
        clock.move(100 * MINUTE)
        assert a.asks() == []
        resume(store)
        assert len(a.asks()) == 1

    def test_who_paused_and_what_tenants_report_stays_through_exchanges(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 5)
        told: list[int | None] = []

        def report(tenant: str) -> None:
            def step(record: Record | None, raw: int) -> Record | None:
                assert record is not None
                now = limit_state.logical(record, raw)
                told.append(reports.report(record, limit_state.terms_at(record, now), tenant, MINUTE, now))
                return record

            store.change(LIMIT, step)

        report("ann")
        assert len(a.wants()) == 1  # others go on
        report("ann")
        record, raw = store.read(LIMIT)
        assert record is not None
        now = limit_state.logical(record, raw)
        assert (reports.left(record, "ann", now), reports.left(record, "bob", now)) == (reports.MOST, 0)
        report("bob")
        assert told[-3:] == [None, None, reports.MOST]
        clock.move(MINUTE)
        report("cid")
        assert told[-1] is None  # what was said a minute ago confirms nothing
        pause(store)
        a.asks()
        record, _ = store.read(LIMIT)
        assert record is not None
        assert record.get("paused_by") == "ann"
        resume(store)
        a.asks()
        record, _ = store.read(LIMIT)
        assert record is not None
        assert (record.get("paused_by"), record.get("reports")) == ("", None)

    def test_what_tenants_say_of_failures_and_who_was_refused_stays_through_exchanges(
        self, store: LimitStore, a: Process
    ) -> None:
        define(store, 5)

        def fail(record: Record | None, raw: int) -> Record | None:
            assert record is not None
            now = limit_state.logical(record, raw)
            assert reports.failed(record, limit_state.terms_at(record, now), "ann", now) is None
            return record

        def refuse(record: Record | None, raw: int) -> Record | None:
            assert record is not None
            record["refused_callers"] = {"http:bob/": limit_state.logical(record, raw) + MINUTE}
            record["version"] += 1
            return record

        for step in (fail, refuse, fail, fail):
            store.change(LIMIT, step)
            assert len(a.wants()) == 1  # others go on
        record, raw = store.read(LIMIT)
        assert record is not None
        now = limit_state.logical(record, raw)
        assert (reports.in_a_row(record, "ann"), reports.left(record, "ann", now)) == (3, 2 * SECOND)
        assert record.get("refused_callers") == {"http:bob/": now + MINUTE}
        assert record["cooldown"]["failure_count"] == 0

    def test_a_pause_for_a_while_ends_by_itself(self, store: LimitStore, clock: HandClock, a: Process) -> None:
        define(store, 5)
        pause(store, for_ms=MINUTE)
        a.wants()
        assert a.waits[0] == {
            "ask_again_in_ms": 5 * SECOND,
            "eta_ms": MINUTE,
            "ahead_count": 0,
            "blocked_by": ["paused"],
        }
        clock.move(MINUTE - 1)
        assert a.asks() == []
        clock.move(1)
        assert len(a.asks()) == 1

    def test_the_last_layer_cannot_be_cleared(self, store: LimitStore) -> None:
        define(store, 5)
        before = stored(store)
        with pytest.raises(BadInput):
            clear(store, "code")
        assert stored(store) == before

    @pytest.mark.parametrize(
        "values", [{"in_flight": -1}, {"heartbeat_s": 6.0}, {"windows": []}, {"nonsense": 1}, {"in_flight": "5"}]
    )
    def test_what_does_not_hold_together_is_refused_and_nothing_changes(
        self, store: LimitStore, values: dict[str, Any]
    ) -> None:
        define(store, None, [(5, 60.0)])
        before = stored(store)
        with pytest.raises(BadInput):
            put(store, "operator", **values)
        assert stored(store) == before

    def test_a_definition_that_would_end_with_an_override_is_refused(self, store: LimitStore) -> None:
        with pytest.raises(BadInput):
            put(store, "override", for_ms=MINUTE, in_flight=5)
        assert store.names() == []

    def test_a_reset_drops_what_the_dead_hold_and_nothing_of_the_living(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 5)
        a.wants(3)
        b.wants(2)
        assert reset(store) == 0
        clock.move(LEASE)
        b.beats()
        assert reset(store) == 3
        assert sorted(stored(store)["sessions"]) == ["b"]
        assert len(b.wants(9)) == 3

    def test_a_reset_of_everything_forgets_calls_usage_and_rest_and_says_how_many(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 5, [(5, 600.0)])
        clock.move(1)
        held = a.wants(5)
        a.refused(clock.shown, MINUTE)
        assert reset(store, everything=True) == 5
        assert len(a.wants(9)) == 5
        a.gives_back(held)
        assert len(stored(store)["sessions"]["a"]["calls"]) == 5
        assert not {*held} & {call["id"] for call in stored(store)["sessions"]["a"]["calls"]}

    def test_a_reset_loses_no_caller_who_was_let_in_and_has_not_heard(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 1)
        held = a.wants()
        b.wants()
        a.gives_back(held)
        assert reset(store, everything=True) == 1
        assert len(b.asks()) == 1

    def test_a_process_hears_of_new_terms_once(self, store: LimitStore, a: Process) -> None:
        define(store, 5)
        assert a.exchanges()["terms"][0]["in_flight"] == 5
        assert a.exchanges()["terms"] == []
        put(store, "operator", lease_s=60.0)
        assert a.beats()["terms"][0]["lease_ms"] == MINUTE
        assert a.exchanges()["terms"] == []
        assert stored(store)["sessions"]["a"]["ends_at"] == a.seen + MINUTE

    def test_a_longer_call_timeout_holds_calls_granted_from_then_on_for_longer(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 2)
        a.wants()
        put(store, "operator", call_timeout_s=120.0)
        a.wants()
        clock.move(HELD)
        assert len(b.wants(2)) == 1
        assert LIMIT in store.names()
