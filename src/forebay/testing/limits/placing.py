"""Promises of kept places: who asks, goes away and comes back has a place in line, and holds up nobody."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from forebay.model.limit_record import KeptPlace
from forebay.rules.kept_places import EARLY, KEPT
from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import HELD, LEASE, SECOND, LimitCase, define, pause, reset, resume, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.owner import KEEP, Owner
from forebay.testing.limits.process import Process

OVER = KEPT - EARLY
"""How long after the instant that it was told a slot is kept for a place."""
DELIVERIES = 6


def place_of(store: LimitStore, owner: Owner) -> KeptPlace:
    return stored(store)["sessions"][owner.sid]["place"]


def is_there(store: LimitStore, owner: Owner) -> bool:
    return owner.sid in stored(store)["sessions"]


def owners(store: LimitStore) -> Callable[..., Owner]:
    """Return what makes the owner of a place, by its name and the token of a delivery."""
    return lambda name, holder="first": Owner(store, name, holder)


def fill(store: LimitStore, clock: HandClock, process: Process) -> Process:
    """Have a process hold the only slot of a limit whose calls take 4 s."""
    define(store, 1)
    held = process.wants()
    clock.move(4 * SECOND)
    process.gives_back(held)
    process.wants()
    return process


class PlacePromises(LimitCase):
    @pytest.fixture
    def own(self, store: LimitStore) -> Callable[..., Owner]:
        return owners(store)

    @pytest.fixture
    def full(self, store: LimitStore, clock: HandClock, a: Process) -> Process:
        return fill(store, clock, a)

    def _frees(self, clock: HandClock, full: Process, after: int) -> None:
        clock.move(after)
        full.gives_back([*full.calls])

    def _misses(self, clock: HandClock, full: Process, owner: Owner) -> None:
        """A slot is kept for the owner, who does not come; then somebody else has it."""
        self._frees(clock, full, owner.again)
        clock.move(OVER)
        assert len(full.wants(front=True)) == 1

    def test_a_free_slot_is_granted_to_the_ask(self, store: LimitStore, own: Callable[..., Owner]) -> None:
        define(store, 1)
        owner, other = own("job-1"), own("job-2")
        assert owner.asks()
        assert not other.asks()
        owner.gives_back()
        assert other.asks()

    def test_places_are_served_in_the_order_in_which_they_were_asked_for_first(
        self, clock: HandClock, full: Process, own: Callable[..., Owner]
    ) -> None:
        owners = [own(f"job-{at}") for at in range(4)]
        assert not any(owner.asks() for owner in owners)
        clock.move(20 * SECOND)
        assert not any(owner.asks() for owner in reversed(owners))
        assert [owner.ahead for owner in owners] == [0, 1, 2, 3]
        full.gives_back([*full.calls])
        served = []
        for _ in owners:
            waiting = [owner for owner in owners if owner.name not in served]
            # Whoever comes when a slot is free gets it; the others keep their places.
            got = [owner for owner in waiting if owner.asks()]
            served += [owner.name for owner in got]
            for owner in got:
                owner.gives_back()
        assert sorted(served) == [owner.name for owner in owners]

    def test_it_is_told_whole_seconds_within_a_quarter_of_its_time(
        self, store: LimitStore, clock: HandClock, full: Process, own: Callable[..., Owner]
    ) -> None:
        owner = own("job-1")
        assert [*full.calls.values()] == [clock.shown]
        owner.asks()
        assert owner.again == 3 * SECOND
        pause(store)
        owner.asks()
        assert owner.again == 30 * SECOND
        owner.asks(keep=10_000)
        assert owner.again == 2 * SECOND

    def test_who_is_away_is_passed_and_keeps_its_place(
        self, clock: HandClock, full: Process, b: Process, own: Callable[..., Owner]
    ) -> None:
        owner = own("job-1")
        owner.asks()
        b.wants()
        self._frees(clock, full, owner.again - EARLY - 1)
        b.beats()
        assert len(b.calls) == 1
        assert not owner.asks()
        assert owner.ahead == 0

    def test_the_next_free_slot_is_kept_for_it_around_the_instant_that_it_was_told(
        self, store: LimitStore, clock: HandClock, full: Process, b: Process, own: Callable[..., Owner]
    ) -> None:
        owner = own("job-1")
        owner.asks()
        self._frees(clock, full, owner.again - EARLY)
        clock.move(KEPT - 1)
        assert b.wants() == []
        assert owner.asks()
        [call] = stored(store)["sessions"][owner.sid]["calls"]
        assert (call["granted_at"], call["call_until"]) == (clock.shown, clock.shown + HELD)

    def test_a_slot_that_was_kept_in_vain_is_the_next_ones(
        self, store: LimitStore, clock: HandClock, full: Process, b: Process, own: Callable[..., Owner]
    ) -> None:
        owner = own("job-1")
        owner.asks()
        b.wants()
        self._frees(clock, full, owner.again)
        clock.move(OVER - 1)
        assert b.asks() == []
        clock.move(1)
        assert len(b.asks()) == 1
        assert place_of(store, owner)["missed_count"] == 1
        assert not owner.asks()
        assert owner.ahead == 0

    def test_who_has_missed_it_twice_goes_to_the_end(
        self, clock: HandClock, full: Process, own: Callable[..., Owner]
    ) -> None:
        owner, other = own("job-1"), own("job-2")
        owner.asks()
        self._misses(clock, full, owner)
        owner.asks()
        other.asks()
        assert (owner.ahead, other.ahead) == (0, 1)
        self._misses(clock, full, owner)
        other.asks()
        owner.asks()
        assert (owner.ahead, other.ahead) == (1, 0)

    def test_a_place_whose_owner_never_returns_ends_and_holds_up_nobody(
        self, store: LimitStore, clock: HandClock, full: Process, own: Callable[..., Owner]
    ) -> None:
        owner = own("job-1")
        owner.asks()
        left = KEEP - owner.again - OVER
        self._misses(clock, full, owner)
        while left > SECOND:
            clock.move(SECOND)
            left -= SECOND
            full.gives_back([*full.calls])
            assert len(full.wants()) == 1
        assert is_there(store, owner)
        clock.move(left)
        full.asks()
        assert not is_there(store, owner)

    def test_who_leaves_has_no_place_and_no_slot_any_more(
        self, store: LimitStore, clock: HandClock, full: Process, b: Process, own: Callable[..., Owner]
    ) -> None:
        owner = own("job-1")
        owner.asks()
        owner.leaves()
        assert not is_there(store, owner)
        owner.asks()
        self._frees(clock, full, owner.again)
        owner.leaves()
        assert len(b.wants()) == 1

    def test_a_doubled_delivery_neither_runs_nor_releases(
        self, store: LimitStore, clock: HandClock, own: Callable[..., Owner]
    ) -> None:
        define(store, 1)
        first, second = own("job-1"), own("job-1", "second")
        assert first.asks()
        assert store.exchange(second.limit, second.ask())["status"] == "held"
        assert second.gives_back(first.call)["status"] == "late"
        assert second.gives_back(first.call, numbered=False)["status"] == "late"
        assert second.beats()["status"] == "late"
        assert second.leaves()["status"] == "held"
        clock.move(LEASE - 1)
        assert first.beats()["status"] == "ok"
        clock.move(LEASE - 1)
        assert store.exchange(second.limit, second.ask())["status"] == "held"
        assert first.gives_back(numbered=False)["in_flight_count"] == 0
        assert second.asks()

    def test_of_deliveries_at_once_one_gets_the_slot(self, store: LimitStore, clock: HandClock) -> None:
        define(store, DELIVERIES)

        def deliver(number: int) -> str:
            owner = Owner(self.another(store, clock), "job-1", f"delivery-{number}")
            answer = owner.store.exchange(owner.limit, owner.ask())
            return "runs" if owner.takes(answer) else answer["status"]

        with ThreadPoolExecutor(DELIVERIES) as pool:
            found = sorted(pool.map(deliver, range(DELIVERIES)))
        assert found == ["held"] * (DELIVERIES - 1) + ["runs"]
        assert len(stored(store)["sessions"]["job-1.place"]["calls"]) == 1

    def test_the_same_ask_again_brings_the_same_slot(
        self, store: LimitStore, clock: HandClock, own: Callable[..., Owner]
    ) -> None:
        define(store, 2)
        owner = own("job-1")
        owner.asks()
        call = owner.call
        clock.move(LEASE - 1)
        assert owner.asks()
        assert owner.call == call
        owner.beats()
        clock.move(LEASE - 1)
        assert owner.asks()
        assert owner.call == call
        assert own("job-2").asks()

    def test_the_call_of_an_owner_that_died_counts_on_and_its_place_can_be_asked_for(
        self, store: LimitStore, clock: HandClock, own: Callable[..., Owner]
    ) -> None:
        define(store, 1)
        own("job-1").asks()
        clock.move(LEASE)
        again = own("job-1", "second")
        assert not again.asks()
        clock.move(HELD - LEASE)
        assert again.asks()
        assert len(stored(store)["sessions"][again.sid]["calls"]) == 1

    def test_a_slot_that_is_kept_is_not_granted_in_a_pause(
        self, store: LimitStore, clock: HandClock, full: Process, own: Callable[..., Owner]
    ) -> None:
        owner = own("job-1")
        owner.asks()
        self._frees(clock, full, owner.again)
        pause(store)
        assert not owner.asks()
        resume(store)
        assert owner.asks()

    def test_a_slot_that_is_kept_counts_in_windows_from_when_it_is_granted(
        self, store: LimitStore, clock: HandClock, a: Process, b: Process, own: Callable[..., Owner]
    ) -> None:
        define(store, 1, [(2, 60.0), (9, 60.0, "pages")])
        held = a.wants(1, {"pages": 4})
        owner = own("job-1")
        owner.asks({"pages": 5})
        clock.move(owner.again)
        a.gives_back(held)
        clock.move(SECOND)
        assert owner.asks({"pages": 5})
        assert stored(store)["window_logs"]["pages/60000"]["entries"][-2:] == [clock.shown, 5]
        owner.gives_back()
        assert b.wants(1, {"pages": 1}) == []

    def test_a_slot_that_was_kept_in_vain_counts_in_no_window(
        self, store: LimitStore, clock: HandClock, a: Process, own: Callable[..., Owner]
    ) -> None:
        define(store, 1, [(9, 60.0, "pages")])
        held = a.wants(1, {"pages": 4})
        owner = own("job-1")
        owner.asks({"pages": 5})
        clock.move(owner.again)
        a.gives_back(held)
        clock.move(OVER)
        assert len(a.wants(1, {"pages": 5})) == 1

    def test_reset_forgets_slots_that_are_kept_and_no_place_that_waits(
        self, store: LimitStore, clock: HandClock, full: Process, own: Callable[..., Owner]
    ) -> None:
        owner, other = own("job-1"), own("job-2")
        owner.asks()
        other.asks()
        self._frees(clock, full, owner.again)
        reset(store, everything=True)
        assert other.asks()
        assert not owner.asks()

    def test_more_places_than_a_step_looks_at_end_one_after_the_other(
        self, store: LimitStore, clock: HandClock, full: Process, own: Callable[..., Owner]
    ) -> None:
        for at in range(20):
            own(f"job-{at}").asks()
        clock.move(KEEP)
        full.asks()
        assert [*stored(store)["sessions"]] == ["a"]
