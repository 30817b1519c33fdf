"""One attempt in this worker: why it was stopped, how long it ran, and how it ended, reported once."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from forebay.engine import outcomes
from forebay.engine.desk import LedgerDesk
from forebay.engine.lease import Lease
from forebay.engine.quota import Quota, give_unsent
from forebay.engine.quotas import Quotas
from forebay.engine.registry import Kind
from forebay.engine.room import Room
from forebay.engine.slots import Calls
from forebay.engine.submission import Submissions
from forebay.engine.watch import Watch
from forebay.engine.wishes import Units
from forebay.limits.slot import Slot
from forebay.model.exchange import Hold
from forebay.model.outcome import Canceled, Outcome
from forebay.model.task import Task
from forebay.observe import emit, wanted


class Why(StrEnum):
    """Why an attempt is stopped before its handler has ended."""

    TIMEOUT = "timeout"
    DEADLINE = "deadline"
    CANCEL = "cancel"
    DRAIN = "drain"
    LEASE_LOST = "lease_lost"
    WAITED = "waited"


_LATE_S = 0.25


class Ended(Protocol):
    """Called once, with the outcome, or with None when the task is to be handed back or is not ours any more."""

    def __call__(self, attempt: Attempt, outcome: Outcome | None, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What all attempts of a worker share."""

    loop: asyncio.AbstractEventLoop
    submissions: Submissions
    lease: Lease
    quotas: Quotas
    room: Room
    ended: Ended


class Claimed(NamedTuple):
    """A task as its worker took it; `units` are None for a kind without a limit."""

    task: Task
    kind: Kind
    desk: LedgerDesk
    deadline_in_s: float | None
    units: Units | None


class Attempt:
    """What the two ways to run a handler share: the clock, the first reason to stop, the one report.

    One that has a quota waits there until it may enter: with its slot, if its handler is one call.
    """

    ends_at = math.inf
    _ends_why = Why.TIMEOUT
    _left_s = 0.0
    _runs_since = 0.0
    _paused_at: float | None = None
    _slept_s = 0.0
    _calls: Calls | None = None
    _late_timer: asyncio.TimerHandle | None = None

    def __init__(self, claimed: Claimed, terms: Terms) -> None:
        self.task, self.kind, self.desk, self._deadline_in_s, units = claimed
        self.units: Units = units or ()
        self.slot: Slot | None = None
        self.inside = False
        self.why: Why | None = None
        self.started_at: float | None = None
        self.loop = terms.loop
        self.submissions = terms.submissions
        self.lease = terms.lease
        self._claimed_at = time.monotonic()
        self._terms = terms
        self._quota: Quota | None = None if units is None else terms.quotas.find(self.kind.name)
        self._reported = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def calls(self) -> Calls:
        """The slots it takes; most attempts never ask for one."""
        if self._calls is None:
            self._calls = self._terms.quotas.calls(self.kind, self, self.task)
        return self._calls

    def wait(self) -> None:
        """Begin to wait: for a slot first, where one is needed."""
        if self._quota is None:
            self.enter(None)
        else:
            self._quota.add(self)

    def enter(self, slot: Slot | None) -> None:
        """Go where handlers run; a slot is held for a moment only while there is no place."""
        self.slot = slot
        self.inside = True
        self._terms.room.took(self.kind, self.task.lane)
        if slot is not None:
            self._late_timer = self.loop.call_later(_LATE_S, self._late)
        self._enter()

    def _enter(self) -> None:
        raise NotImplementedError

    def _take_back(self) -> bool:
        """Whether it has not started yet; then it will not."""
        raise NotImplementedError

    def _late(self) -> None:
        """No place came free in time: others can use the slot until there is one."""
        if self.slot is not None and self.started_at is None and self.why is None and self._take_back():
            slot, self.slot = self.slot, None
            give_unsent(slot)
            self.inside = False
            self._terms.room.freed(self.kind, 0.0, self.task.lane)
            if self._quota is not None:
                self._quota.late()
            self.wait()

    @property
    def has_place(self) -> bool:
        """Whether it runs, or prepares to where it will."""
        return self.started_at is not None

    @property
    def queues(self) -> bool:
        """Whether it has entered and waits for a place."""
        return self.inside and self.started_at is None and not self._reported

    def hand_back(self) -> None:
        """It waits for a slot that does not come."""
        self.stop(Why.WAITED)

    @property
    def run_s(self) -> float:
        return 0.0 if self.started_at is None else time.monotonic() - self.started_at

    @property
    def waited_s(self) -> float:
        """How long it was in hand before its handler began, or has been until now."""
        return (self.started_at or time.monotonic()) - self._claimed_at

    @property
    def late_by_s(self) -> float:
        """How much longer than its time alone it takes: it waited, before it began and for slots."""
        return self.waited_s + self._slept_s + (0.0 if self._paused_at is None else time.monotonic() - self._paused_at)

    def hold(self, grace_s: float) -> Hold:
        """Its full time, from now on."""
        return Hold(self.task.id, self.task.claim_count, self.task.timeout_s + grace_s, self.task.job_id)

    @property
    def overdue(self) -> bool:
        """Whether its deadline is over before it has begun."""
        waited_s = time.monotonic() - self._claimed_at
        return self._deadline_in_s is not None and self._deadline_in_s <= waited_s

    def begin(self) -> bool:
        """Start the clock; False when the deadline is over before anything has begun, and the clock ends it at once."""
        task = self.task
        self.started_at = now = time.monotonic()
        self._left_s = task.timeout_s
        if self._late_timer is not None:
            self._late_timer.cancel()
        goes_on = self._run_clock(now)
        if wanted("task_started"):
            emit("task_started", task_id=task.id, kind=task.kind, attempt=task.attempt_count + 1)
        return goes_on

    def _run_clock(self, now: float) -> bool:
        self._runs_since = now
        if self._deadline_in_s is not None:
            until_deadline_s = self._deadline_in_s - (now - self._claimed_at)
            if until_deadline_s < self._left_s:
                self._arm(max(0.0, until_deadline_s), Why.DEADLINE)
                return until_deadline_s > 0
        self._arm(self._left_s, Why.TIMEOUT)
        return self._left_s > 0

    def pause(self, *, ours: bool) -> None:
        """Stop the clock: from now on it waits for a slot, of its own limit or of another. A deadline goes on."""
        if self.started_at is not None and self._paused_at is None:
            self._paused_at = time.monotonic()
            self._left_s -= self._paused_at - self._runs_since
            if self._deadline_in_s is None:
                self.ends_at = math.inf
            else:
                self._arm(max(0.0, self._deadline_in_s - (self._paused_at - self._claimed_at)), Why.DEADLINE)
            if ours and self._quota is not None:
                self._quota.waits(self)

    def resume(self, *, ours: bool, got: bool) -> None:
        if self._paused_at is not None:
            now = time.monotonic()
            self._slept_s += now - self._paused_at
            self._paused_at = None
            if self.why is None and not self._reported:
                self._run_clock(now)
            if ours and self._quota is not None:
                self._quota.waited(self, got=got)

    def _arm(self, limit_s: float, why: Why) -> None:
        self._ends_why = why
        self.ends_at = ends_at = self.loop.time() + limit_s
        watch = self._watch()
        if watch is not None and ends_at < watch.due_at:
            watch.until(ends_at)

    def _watch(self) -> Watch | None:
        """Who ends it when its time is over."""
        raise NotImplementedError

    def overdue_now(self) -> None:
        self.stop(self._ends_why)

    def stop(self, why: Why) -> None:
        """Begin to end it; the first reason stands."""
        if self.why is None and not self._reported:
            self.why = why
            self._cancel_timer()
            if self.inside:
                self._stop()
            else:
                if self._quota is not None:
                    self._quota.take_back(self)
                self.report_stopped()

    def _stop(self) -> None:
        raise NotImplementedError

    def report(self, outcome: Outcome | None) -> None:
        if not self._reported:
            self._reported = True
            if self._timer is not None:
                self._cancel_timer()
            if self._late_timer is not None:
                self._late_timer.cancel()
            if self._quota is not None:
                self._quota.take_back(self)
            if self.slot is not None or self._calls is not None:
                outcome = self.calls.close(self.slot, outcome, sent=self.started_at is not None)
            else:
                outcome = outcomes.without_auth(outcome)
            if outcome is not None and self.desk.usage:
                outcome = outcomes.with_usage(outcome, self.desk.usage)
            self._terms.ended(self, outcome)

    def report_stopped(self) -> None:
        """The handler is gone before it has said anything."""
        self.report(self.stopped())

    def stopped(self) -> Outcome | None:
        match self.why:
            case Why.TIMEOUT:
                return outcomes.timed_out(self.task.timeout_s)
            case Why.DEADLINE:
                return outcomes.past_deadline()
            case Why.CANCEL:
                return Canceled()
            case _:
                return None

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        self._timer = self.loop.call_later(delay_s, call)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
