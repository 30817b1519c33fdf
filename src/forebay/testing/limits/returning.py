"""Promises of giving back without a number: at once, in any order, once, and what was cut off counts to its end."""

from __future__ import annotations

import copy

import pytest

from forebay.rules.limit_state import cut_off_count
from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import HELD, LEASE, SECOND, LimitCase, define, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process

SAID = ("exchange first", "give_back first", "give_back twice")


def gives_back_both_ways(process: Process, call_ids: list[int], outcome: str, order: str, pages: int) -> None:
    """Say the same by a numbered exchange and by `give_back`."""
    process.ends(call_ids, outcome, {"pages": pages})
    asked, returned = process.ask(), process.returns()
    verbs = [
        lambda: process.takes(asked, process.store.exchange(LIMIT, asked)),
        lambda: process.takes(returned, process.store.give_back(LIMIT, returned)),
    ]
    if order == "exchange first":
        verbs[0]()
        verbs[1]()
    else:
        verbs[1]()
        if order == "give_back twice":
            verbs[1]()
        verbs[0]()


class ReturnPromises(LimitCase):
    def test_what_is_given_back_is_free_for_others_at_once(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 2, [(2, 60.0)])
        held = a.wants(2)
        a.ends(held[:1], "unsent")
        store.give_back(LIMIT, a.returns())
        other = Process(self.another(store, clock), clock, "b")
        assert len(other.wants(5)) == 1

    def test_who_waits_hears_of_what_is_given_back(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 1)
        told: list[int] = []
        stop = store.listen("b", lambda _, grants, __: told.extend(grant["call_count"] for grant in grants))
        held = a.wants()
        assert b.wants() == []
        a.ends(held)
        store.give_back(LIMIT, a.returns())
        if self.wakes:
            self.wait_for(lambda: told == [1])
        stop()
        b.beats()
        assert len(b.calls) == 1

    def test_what_is_sent_back_arrives_without_being_waited_for(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 1)
        told: list[int] = []
        stop = store.listen("b", lambda _, grants, __: told.extend(grant["call_count"] for grant in grants))
        held = a.wants()
        assert b.wants() == []
        a.ends(held)
        returned = a.returns()
        if not store.send_back(LIMIT, returned):
            assert stored(store)["sessions"]["a"]["calls"], "it was refused, and done all the same"
            store.give_back(LIMIT, returned)
        self.wait_for(lambda: not stored(store)["sessions"]["a"]["calls"])
        if self.wakes:
            self.wait_for(lambda: told == [1])
        stop()
        b.beats()
        a.exchanges()  # nobody takes the answer of the one for that of the other
        assert len(b.calls) == 1

    def test_a_session_hears_of_its_own_grant_although_nobody_reads_the_answer(
        self, store: LimitStore, a: Process
    ) -> None:
        define(store, 1)
        held = a.wants()
        assert a.wants() == []
        told: list[int] = []
        stop = store.listen("a", lambda _, grants, __: told.extend(grant["call_count"] for grant in grants))
        a.ends(held)
        if store.send_back(LIMIT, a.returns()) and self.wakes and not store.instant:
            self.wait_for(lambda: told == [1])
        stop()

    @pytest.mark.parametrize("order", SAID)
    @pytest.mark.parametrize("outcome", ["ok", "failed", "unsent", "", "cut_off", "timed_out"])
    def test_what_is_given_back_both_ways_is_given_back_once(
        self, store: LimitStore, a: Process, order: str, outcome: str
    ) -> None:
        define(store, 4, [(40, 60.0), (40, 60.0, "pages")], breaker_after=9)
        first, _ = a.wants(2, {"pages": 3})
        before = stored(store)["window_logs"]
        gives_back_both_ways(a, [first], outcome, order, pages=5)
        record = stored(store)
        sent, cut = outcome != "unsent", outcome in {"cut_off", "timed_out"}
        assert [call["id"] for call in record["sessions"]["a"]["calls"]] == [first + 1]
        assert cut_off_count(record) == int(cut)
        assert record["window_logs"]["calls/60000"]["sum"] == before["calls/60000"]["sum"] - (not sent)
        assert record["window_logs"]["pages/60000"]["sum"] == before["pages/60000"]["sum"] + (2 if sent else -3)
        assert record["cooldown"]["failure_count"] == int(outcome in {"failed", "timed_out"})

    def test_a_refusal_that_is_sent_ahead_counts_once(self, store: LimitStore, clock: HandClock, a: Process) -> None:
        define(store, 4)
        clock.move(1)
        a.wants()
        a.hints.append(
            {"kind": "cooldown", "granted_at": a.grants[0]["granted_at"], "wait_ms": -1, "jitter_permille": 0}
        )
        store.give_back(LIMIT, a.returns())
        cool = stored(store)["cooldown"]
        assert cool["level"] == 1
        clock.move(SECOND)
        a.exchanges()
        assert stored(store)["cooldown"] == cool

    def test_giving_back_leaves_line_and_number_as_they_are(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 2)
        held = a.wants(2)
        b.wants(1)
        a.joins(3)
        asked = a.ask()
        store.exchange(LIMIT, asked)
        before = stored(store)["sessions"]["a"]
        a.ends(held[:1])
        store.give_back(LIMIT, a.returns())
        after = stored(store)["sessions"]["a"]
        assert (after["request_number"], after["runs"], after["next_call_id"]) == (
            before["request_number"],
            before["runs"],
            before["next_call_id"],
        )
        a.takes(asked, store.exchange(LIMIT, asked))  # whose answer was lost

    @pytest.mark.parametrize("call_id", [0, 2, 99])
    def test_giving_back_what_one_does_not_hold_changes_nothing(
        self, store: LimitStore, a: Process, b: Process, call_id: int
    ) -> None:
        define(store, 2, [(2, 60.0)])
        a.wants()
        b.wants()
        b.ends([call_id], "unsent")
        store.give_back(LIMIT, b.returns())
        assert sum(len(seat["calls"]) for seat in stored(store)["sessions"].values()) == 2
        assert a.wants() == []

    def test_what_an_ended_session_gives_back_late_is_of_no_harm(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 2)
        held = a.wants(2)
        clock.move(HELD)
        assert len(b.wants(2)) == 2
        a.ends(held)
        store.give_back(LIMIT, a.returns())
        assert len(stored(store)["sessions"]["b"]["calls"]) == 2
        assert b.wants() == []

    def test_a_store_that_forgot_is_found_out_by_who_gives_back(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 2)
        held = a.wants(1)
        old = stored(store)
        held += a.wants(1)
        store.change(LIMIT, lambda _, __: copy.deepcopy(old))
        a.ends(held)
        returned = a.returns()
        for _ in range(2):
            store.give_back(LIMIT, returned)
            assert stored(store)["generation"] == old["generation"] + 1
        assert b.wants(2) == []
        assert b.waits[0]["blocked_by"] == ["relearning"]
        clock.move(HELD)
        assert len(b.asks()) == 2
        assert len(stored(store)["sessions"]["b"]["calls"]) == 2
        store.give_back(LIMIT, returned)  # of the generation before
        assert len(stored(store)["sessions"]["b"]["calls"]) == 2

    def test_a_limit_that_is_not_there_is_unknown(self, store: LimitStore, a: Process) -> None:
        a.ends([1])
        assert store.give_back(LIMIT, a.returns())["status"] == "unknown"

    @pytest.mark.parametrize("outcome", ["cut_off", "timed_out"])
    def test_a_call_that_was_cut_off_counts_until_its_provider_is_done(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process, outcome: str
    ) -> None:
        define(store, 1)
        held = a.wants()
        clock.move(SECOND)
        a.ends(held, outcome)
        assert store.give_back(LIMIT, a.returns())["cut_off_count"] == 1
        assert b.wants() == []
        while clock.shown < stored(store)["sessions"]["a:cut_off"]["calls"][0]["call_until"] - LEASE:
            clock.move(LEASE - 1)
            a.beats()
            b.beats()
        clock.move(stored(store)["sessions"]["a:cut_off"]["calls"][0]["call_until"] - clock.shown - 1)
        assert b.asks() == []
        assert b.waits[0]["ask_again_in_ms"] == 1
        clock.move(1)
        assert len(b.asks()) == 1
        assert cut_off_count(stored(store)) == 0

    def test_a_call_that_was_cut_off_counts_from_its_last_start(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 2)
        held = a.wants()
        clock.move(5 * SECOND)
        a.starts += held
        a.exchanges()
        a.ends(held, "cut_off")
        store.give_back(LIMIT, a.returns())
        assert stored(store)["sessions"]["a:cut_off"]["calls"][0]["call_until"] == clock.shown + HELD

    def test_a_provider_that_stops_with_its_client_is_free_at_once(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 1, on_disconnect="stops")
        a.ends(a.wants(), "cut_off")
        assert store.give_back(LIMIT, a.returns())["cut_off_count"] == 0
        assert len(b.wants()) == 1
