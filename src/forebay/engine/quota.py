"""Brings the claimed tasks of one limited kind and the slots of its limit together."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from forebay.clock import steady
from forebay.engine import outcomes
from forebay.engine.ahead import STALL_S, Ahead
from forebay.engine.holding import Holding
from forebay.engine.registry import Kind
from forebay.engine.wishes import Units, Wishes, units_key
from forebay.errors import ForebayError, NeverFits
from forebay.limits.slot import Slot
from forebay.limits.standing import Stand
from forebay.observe import emit

if TYPE_CHECKING:
    from forebay.engine.attempt import Attempt

_SHUT_S = 1.0
_IDLE_SLOT_S = 1.0


class Quota(Protocol):
    """What a worker asks of a limited kind; one stands in line before it has a task, so that a claim never waits long.

    Whoever cannot have a slot soon costs the ledger nothing: no task is claimed for it.
    """

    kind: Kind

    @property
    def hungry(self) -> bool:
        """Whether slots wait for tasks."""

    @property
    def backed_up(self) -> bool:
        """Whether tasks wait for slots."""

    @property
    def short(self) -> bool:
        """Whether tasks are to be claimed at once, and not only when something else is to be said to the ledger."""

    def wanted(self) -> int:
        """How many tasks to claim now."""

    def stand_for(self, places: int, *, ready: bool) -> None:
        """Wish for slots: there are so many places to run in, and tasks to claim or not."""

    def add(self, attempt: Attempt) -> None:
        """A task was claimed."""

    def take_back(self, attempt: Attempt) -> bool:
        """Whether it still waited here; then it does no more."""

    def waits(self, attempt: Attempt) -> None:
        """Its handler stands in line for a slot."""

    def waited(self, attempt: Attempt, *, got: bool) -> None:
        """Its handler stands in line no more: it got its slot, or none."""

    def late(self) -> None:
        """An attempt gave its slot back because it found no place in time."""

    def unused(self, *, ready: bool) -> None:
        """After an exchange: slots for which there is no task go back."""

    def tick(self) -> None: ...

    def close(self) -> None: ...


class _Shut:
    """Closed for a moment after the limit could not be used at all, so that nobody hammers it."""

    def __init__(self) -> None:
        self._until = 0.0

    def __bool__(self) -> bool:
        return steady() < self._until

    def close(self, kind: Kind, error: Exception) -> None:
        self._until = steady() + _SHUT_S
        code = error.code if isinstance(error, ForebayError) else type(error).__name__
        emit("limit_unusable", limit=kind.limit, kind=kind.name, error_code=code, text=str(error), pause_s=_SHUT_S)


class _Entered(NamedTuple):
    """An attempt that has its slot and, perhaps, no place yet."""

    attempt: Attempt
    at: float
    had_to_wait: bool


class HandlerQuota:
    """The handler is one call: it starts with its slot, which it got by standing in line with its own units."""

    def __init__(self, kind: Kind, stand: Stand, most: int, changed: Callable[[], None]) -> None:
        self.kind = kind
        self._changed = changed
        self._ahead = Ahead(most)
        self._wishes = Wishes(stand, self._granted, self._refused)
        self._attempts: deque[Attempt] = deque()
        self._slots: list[tuple[Slot, Units, float]] = []
        self._entered: list[_Entered] = []
        self._places = 0
        self._usual = units_key({"calls": 1} if callable(kind.units) else kind.units_of(None))
        self._shut = _Shut()
        self._holding = Holding(most)

    @property
    def hungry(self) -> bool:
        return bool(self._slots)

    @property
    def backed_up(self) -> bool:
        return bool(self._attempts)

    @property
    def short(self) -> bool:
        return not self._attempts and self.wanted() > 0

    def wanted(self) -> int:
        return 0 if self._shut else len(self._slots) + max(0, self._ahead.count(steady()) - len(self._attempts))

    def stand_for(self, places: int, *, ready: bool) -> None:
        needed: Counter[Units] = Counter()
        if not self._shut:
            for each in self._entered:
                if each.had_to_wait and each.attempt.started_at is not None:
                    self._holding.used(each.attempt.started_at - each.at)
            self._entered = [each for each in self._entered if each.attempt.queues]
            self._places = places
            free = max(0, max(places, self._holding.allowed(steady()) - len(self._entered)) - len(self._slots))
            needed.update(attempt.units for attempt in list(self._attempts)[:free])
            if ready:
                needed[self._usual] += free - needed.total()
        self._wishes.stand_for(needed)

    def add(self, attempt: Attempt) -> None:
        self._usual = attempt.units
        for index, (slot, units, _) in enumerate(self._slots):
            if units == attempt.units:
                del self._slots[index]
                self._enter(attempt, slot)
                return
        if self._slots:
            # It takes something else than the slot that was there for it: what it does take comes first in line.
            give_unsent(self._slots.pop()[0])
            self._wishes.stand_for(Counter(each.units for each in (*self._attempts, attempt)), front=True)
        self._attempts.append(attempt)

    def take_back(self, attempt: Attempt) -> bool:
        try:
            self._attempts.remove(attempt)
        except ValueError:
            return False
        return True

    def waits(self, attempt: Attempt) -> None:
        """Do nothing: it is of another limit."""

    def waited(self, attempt: Attempt, *, got: bool) -> None:
        """Same."""

    def _granted(self, slot: Slot, units: Units, wait_s: float) -> None:
        self._holding.granted(wait_s)
        attempt = next((each for each in self._attempts if each.units == units), None)
        self._ahead.granted(steady(), idle=attempt is None, last=len(self._attempts) == 1)
        if attempt is None:
            self._slots.append((slot, units, steady()))
        else:
            self._attempts.remove(attempt)
            self._ahead.waited(attempt.waited_s)
            self._enter(attempt, slot)
        self._changed()

    def _enter(self, attempt: Attempt, slot: Slot) -> None:
        if (error := slot.misfit()) is not None:
            give_unsent(slot)
            attempt.report(outcomes.of_error(error))
            return
        attempt.enter(slot)
        if attempt.queues:
            self._entered.append(_Entered(attempt, time.monotonic(), self._places <= 0))
        self._places -= 1

    def late(self) -> None:
        """A slot went back because there was no place for it."""
        self._holding.in_vain(steady())

    def _refused(self, error: Exception, units: Units) -> None:
        """No slot, and it would be no use to wait for it."""
        if isinstance(error, NeverFits):
            for attempt in [each for each in self._attempts if each.units == units]:
                self._attempts.remove(attempt)
                attempt.report(outcomes.of_error(error))
        else:
            self._shut.close(self.kind, error)
        self._changed()

    def unused(self, *, ready: bool) -> None:
        if not ready:
            self._give_back_since(steady())

    def _give_back_since(self, since: float) -> None:
        for slot, _, at in self._slots:
            if at <= since:
                give_unsent(slot)
        self._slots = [each for each in self._slots if each[2] > since]

    def tick(self) -> None:
        """Another worker may get its slot sooner, and a ledger that does not answer keeps others waiting for ours."""
        self._give_back_since(steady() - _IDLE_SLOT_S)
        if self._attempts and self._attempts[0].waited_s > STALL_S:
            self._ahead.stalled()
            for attempt in list(self._attempts):
                attempt.hand_back()

    def close(self) -> None:
        self._give_back_since(steady())
        self._wishes.stand_for(Counter())


class CallQuota:
    """The handler takes a slot for each call itself: so many may prepare for their first one."""

    def __init__(self, kind: Kind, stand: Stand, most: int, changed: Callable[[], None]) -> None:
        self.kind = kind
        self._changed = changed
        self._ahead = Ahead(most)
        self._wishes = Wishes(stand, self._granted, self._refused)
        self._preparing: dict[Attempt, float | None] = {}
        self._cleared = 0
        self._shut = _Shut()

    @property
    def hungry(self) -> bool:
        return self._cleared > 0

    @property
    def backed_up(self) -> bool:
        return False

    @property
    def short(self) -> bool:
        return self.wanted() > 0

    def wanted(self) -> int:
        return 0 if self._shut else max(self._cleared, self._ahead.count(steady()) - len(self._preparing))

    def stand_for(self, places: int, *, ready: bool) -> None:
        """Nobody here would hear that there are slots again: one wish does."""
        alone = ready and places > 0 and not self._preparing and not self._cleared and not self._shut
        self._wishes.stand_for(Counter([units_key({"calls": 1})] if alone and not self._ahead.count(steady()) else []))

    def add(self, attempt: Attempt) -> None:
        self._cleared = max(0, self._cleared - 1)
        self._preparing[attempt] = None
        attempt.enter(None)

    def take_back(self, attempt: Attempt) -> bool:
        self._preparing.pop(attempt, None)
        return False

    def waits(self, attempt: Attempt) -> None:
        """It stands in line for its first slot."""
        if attempt in self._preparing:
            self._preparing[attempt] = steady()

    def late(self) -> None:
        """Its attempts enter without a slot."""

    def waited(self, attempt: Attempt, *, got: bool) -> None:
        since = self._preparing.pop(attempt, None)
        if not got:
            self._ahead.stalled()
        elif since is not None:
            now = steady()
            self._ahead.granted(now, idle=not self._preparing)
            self._ahead.waited(now - since)
        self._changed()

    def _granted(self, slot: Slot, units: Units, wait_s: float) -> None:  # noqa: ARG002 - any slot will do
        """It is not held while a task is claimed and prepared: that there is one is all we wanted to know."""
        give_unsent(slot)
        self._cleared = 1
        self._ahead.granted(steady(), idle=True)
        self._changed()

    def _refused(self, error: Exception, units: Units) -> None:  # noqa: ARG002 - same
        self._shut.close(self.kind, error)

    def unused(self, *, ready: bool) -> None:
        if not ready:
            self._cleared = 0

    def tick(self) -> None:
        now = steady()
        if any(since is not None and now - since > STALL_S for since in self._preparing.values()):
            self._ahead.stalled()

    def close(self) -> None:
        self._cleared = 0
        self._wishes.stand_for(Counter())


def give_unsent(slot: Slot) -> None:
    slot.unsent()
    slot.release()
