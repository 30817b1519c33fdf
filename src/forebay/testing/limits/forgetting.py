"""Promises of a store that forgot: it is found out by whoever remembers, and nothing is granted until it is safe."""

from __future__ import annotations

import copy

import pytest

from forebay.model.limit_record import Record
from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import (
    HELD,
    LATE,
    LEASE,
    MINUTE,
    SECOND,
    TRANSIT,
    LimitCase,
    define,
    put_stored,
    stored,
)
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process


def roll_back(store: LimitStore, old: Record) -> None:
    store.change(LIMIT, lambda _, __: copy.deepcopy(old))


class MemoryPromises(LimitCase):
    def test_an_empty_store_says_that_it_knows_no_such_limit(self, store: LimitStore, a: Process) -> None:
        answer = a.exchanges()
        assert (answer["status"], answer["grants"], answer["version"]) == ("unknown", [], 0)
        assert store.names() == []

    def test_a_record_that_is_gone_is_made_anew_by_one_who_remembers_and_grants_nothing(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 3, [(3, 1.0)])
        a.wants(2)
        empty = self.make_store(clock)
        try:
            a.store = empty
            assert a.exchanges()["status"] == "unknown"
            put_stored(empty, "code", {"in_flight": 3}, version=a.version)
            assert a.wants() == []
            assert a.waits[0]["blocked_by"] == ["relearning"]
            clock.move(HELD - 1)
            a.beats()
            assert a.asks() == []
            clock.move(1)
            assert len(a.asks()) == 1
        finally:
            empty.close()

    def test_a_record_that_newcomers_made_anew_is_found_out_by_the_first_who_remembers(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 3, [(5, 100.0)])
        a.wants(2)
        empty = self.make_store(clock)
        try:
            define(empty, 3, [(5, 100.0)])
            newcomer = Process(empty, clock, "newcomer")
            assert len(newcomer.wants(2)) == 2
            a.store = empty
            answer = a.beats()
            assert (answer["session_lost"], answer["generation"]) == (1, 2)
            assert newcomer.wants() == []
            assert newcomer.waits[0]["blocked_by"][0] == "relearning"
            # What was forgotten may have counted as late as a grant may ever start.
            clock.move(100 * SECOND + 2 * SECOND + TRANSIT)
            newcomer.beats()
            assert newcomer.asks() == []
            clock.move(1)
            assert len(newcomer.asks()) == 1
        finally:
            empty.close()

    def test_an_old_copy_is_found_out_by_its_version(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 3)
        b.beats()
        old = stored(store)
        a.wants(3)
        roll_back(store, old)
        assert a.beats()["generation"] == 2
        assert b.wants() == []
        assert b.waits[0]["blocked_by"] == ["relearning"]
        clock.move(HELD)
        assert len(b.asks()) == 1

    def test_an_old_copy_that_was_written_since_is_found_out_by_the_request_that_it_has_not_seen(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 3)
        a.exchanges()
        old = stored(store)
        a.wants(3)
        roll_back(store, old)
        for _ in range(10):
            b.exchanges()
        assert stored(store)["version"] > a.version
        assert a.beats()["generation"] == 2
        assert b.wants() == []

    def test_an_old_copy_is_found_out_by_a_grant_that_it_has_not_made(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 1)
        held = b.wants()
        a.wants()
        old = stored(store)
        b.gives_back(held)
        # As a wake-up brings it: with the grants, and nothing else.
        a.hears(stored(store)["sessions"]["a"]["unconfirmed"])
        roll_back(store, old)
        assert stored(store)["version"] >= a.version
        assert a.beats()["generation"] == 2
        assert b.wants() == []

    def test_an_old_copy_without_the_session_is_found_out_too(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 3)
        old = stored(store)
        a.wants(3)
        roll_back(store, old)
        for _ in range(10):
            b.exchanges()
        assert a.beats()["generation"] == 2

    def test_one_who_only_beats_holds_everybody_up_once(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 3)
        old = stored(store)
        a.wants(1)
        a.asks()
        roll_back(store, old)
        for _ in range(10):
            b.exchanges()
        a.beats()
        until = stored(store)["held_back_until"]
        assert until == clock.shown + HELD
        for _ in range(5):
            clock.move(4 * SECOND)
            a.beats()
        assert (stored(store)["held_back_until"], stored(store)["generation"]) == (until, 2)

    def test_a_session_that_may_have_ended_is_no_sign_of_a_loss(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 3)
        a.gives_back(a.wants(3))
        clock.move(LEASE)
        b.beats()
        answer = a.exchanges()
        assert (answer["session_lost"], answer["generation"]) == (1, 1)
        assert len(a.wants(3)) == 3

    @pytest.mark.parametrize(("windows", "wait"), [([(3, 1.0)], HELD), ([(3, 1.0), (9, 600.0)], 10 * MINUTE + LATE)])
    def test_it_waits_for_the_longest_that_anything_could_matter(
        self, store: LimitStore, clock: HandClock, a: Process, windows: list[tuple[int, float]], wait: int
    ) -> None:
        define(store, 3, windows)
        old = stored(store)
        a.wants(1)
        roll_back(store, old)
        a.beats()
        assert stored(store)["held_back_until"] == clock.shown + wait

    def test_nothing_starts_late_while_it_learns(self, store: LimitStore, a: Process) -> None:
        define(store, 3)
        old_version = a.version
        [call] = a.wants(1)
        a.version += 100
        a.beats()
        a.starts.append(call)
        assert a.exchanges()["restamps"] == []
        assert a.version > old_version

    def test_calls_that_came_back_with_an_old_copy_are_not_held_for_ever(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 2)
        held = a.wants(2)
        old = stored(store)
        a.gives_back(held)
        roll_back(store, old)
        for _ in range(20):
            a.beats()
            clock.move(4 * SECOND)
        assert len(b.wants(2)) == 2

    def test_a_call_with_a_longer_timeout_than_now_holds_everybody_up_for_as_long_as_it_may_run(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 2, call_timeout_s=300.0)
        a.wants()
        until = clock.shown + 300 * SECOND + HELD - MINUTE
        define(store, 2)
        a.version += 100
        a.beats()
        assert stored(store)["held_back_until"] == until
