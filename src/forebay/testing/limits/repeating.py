"""Promises of repeats: a request whose answer was lost is sent again and counts once, and no grant gets lost."""

from __future__ import annotations

from forebay.model.limit_record import Grant
from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import LEASE, SECOND, LimitCase, define, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process


class RepeatPromises(LimitCase):
    def test_the_same_request_sent_again_gives_the_same_once(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 5, [(5, 60.0)])
        a.joins(3)
        asked = a.ask()
        first = store.exchange(LIMIT, asked)
        clock.move(SECOND)
        again = store.exchange(LIMIT, asked)
        assert again["grants"] == first["grants"]
        a.takes(asked, again)
        assert len(a.calls) == 3
        assert len(b.wants(5)) == 2

    def test_what_is_given_back_in_a_repeated_request_is_given_back_once(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 4, [(4, 60.0)])
        held = a.wants(2)
        a.ends(held[:1], "unsent")
        asked = a.ask()
        for _ in range(3):
            a.takes(asked, store.exchange(LIMIT, asked))
        assert len(b.wants(9)) == 3

    def test_a_refusal_that_is_told_twice_counts_once(self, store: LimitStore, clock: HandClock, a: Process) -> None:
        define(store, 4)
        clock.move(1)
        a.wants()
        a.hints.append(
            {"kind": "cooldown", "granted_at": a.grants[0]["granted_at"], "wait_ms": -1, "jitter_permille": 0}
        )
        clock.move(SECOND)
        asked = a.ask()
        store.exchange(LIMIT, asked)
        cool = stored(store)["cooldown"]
        clock.move(SECOND)
        store.exchange(LIMIT, asked)
        assert stored(store)["cooldown"] == cool
        assert cool["level"] == 1

    def test_a_request_that_was_overtaken_changes_nothing(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 3)
        held = a.wants(1)
        a.joins(2)
        late = a.ask() | {"ended_calls": [{"call_id": held[0], "outcome": "ok", "units": {}}]}
        a.line.clear()
        a.exchanges()
        a.exchanges()
        before = stored(store)["sessions"]
        clock.move(SECOND)
        answer = store.exchange(LIMIT, late)
        assert (answer["status"], answer["grants"], answer["restamps"]) == ("late", [], [])
        assert stored(store)["sessions"] == before
        assert len(b.wants(9)) == 2

    def test_a_request_that_was_overtaken_keeps_no_session_alive(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 1, on_disconnect="stops")
        late = a.ask()
        a.exchanges()
        a.wants()
        clock.move(LEASE - 1)
        store.exchange(LIMIT, late)
        clock.move(1)
        assert len(b.wants()) == 1

    def test_a_heartbeat_brings_what_was_given_and_not_heard_of(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 1)
        held = a.wants()
        b.wants()
        answer = a.store.exchange(
            LIMIT, a.ask() | {"ended_calls": [{"call_id": held[0], "outcome": "ok", "units": {}}]}
        )
        assert answer["woken_session_ids"] == ["b"]
        b.beats()
        assert len(b.calls) == 1

    def test_a_heartbeat_changes_no_line(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 1)
        held = a.wants()
        b.wants()
        b.beats()
        a.beats()
        a.gives_back(held)
        b.beats()
        assert len(b.calls) == 1

    def test_grants_are_repeated_until_they_are_confirmed_and_then_no_more(
        self, store: LimitStore, clock: HandClock, a: Process
    ) -> None:
        define(store, 5)
        a.joins(2)
        asked = a.ask()
        answer = store.exchange(LIMIT, asked)
        for _ in range(3):
            clock.move(SECOND)
            assert store.renew(LIMIT, a._said(0))["grants"] == answer["grants"]  # noqa: SLF001 - nothing is taken
        a.takes(asked, answer)
        assert a.beats()["grants"] == []

    def test_an_answered_grant_never_grows(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 3)
        ended, held = a.wants(), b.wants()
        a.joins(2)
        asked = a.ask()
        first = store.exchange(LIMIT, asked)
        a.ends(ended)
        returned = a.returns()  # it leaves before the answer is there
        b.gives_back(held)
        a.takes(asked, first)
        a.takes(returned, store.give_back(LIMIT, returned))
        a.beats()
        assert len(a.calls) == 2
        assert sorted(a.calls) == [call["id"] for call in stored(store)["sessions"]["a"]["calls"]]

    def test_who_has_not_confirmed_is_passed_over_and_nobody_else(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process
    ) -> None:
        define(store, 3)
        held = a.wants(3)
        b.wants(5)
        c = Process(store, clock, "c")
        c.wants(5)
        # b is given one and says nothing; the next one goes past it, and the third finds nobody who has answered.
        for call_id in held:
            a.gives_back([call_id])
        assert [len(stored(store)["sessions"][sid]["calls"]) for sid in ("b", "c")] == [1, 1]
        c.beats()
        assert len(c.calls) == 1
        c.asks()
        assert len(c.calls) == 2
        b.beats()
        assert len(b.calls) == 1

    def test_those_who_were_given_something_are_named_and_woken_with_it(
        self, store: LimitStore, a: Process, b: Process
    ) -> None:
        define(store, 2)
        told: list[tuple[str, list[Grant], int]] = []
        stop = store.listen("b", lambda limit, grants, now: told.append((limit, grants, now)))
        held = a.wants(2)
        b.wants(2)
        a.ends(held)
        a.joins()
        answer = a.exchanges()
        assert answer["woken_session_ids"] == ["b"]
        if self.wakes:
            self.wait_for(lambda: bool(told))
            [(limit, grants, now)] = told
            assert (limit, now) == (LIMIT, answer["now"])
            b.hears(grants)
            assert len(b.calls) == 2
        stop()
        assert a.wants() == []
        b.gives_back(b.calls)
        assert len(told) <= 1

    def test_nobody_is_woken_for_what_it_asked_itself(self, store: LimitStore, a: Process) -> None:
        define(store, 2)
        a.joins(2)
        assert a.exchanges()["woken_session_ids"] == []
