"""One attempt in this worker: why it was stopped, how long it ran, and how it ended, reported once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from forebay.engine import outcomes
from forebay.engine.desk import LedgerDesk
from forebay.engine.lease import Lease
from forebay.engine.registry import Kind
from forebay.engine.submission import Submissions
from forebay.model.outcome import Canceled, Outcome
from forebay.model.task import Task
from forebay.observe import emit


class Why(StrEnum):
    """Why an attempt is stopped before its handler has ended."""

    TIMEOUT = "timeout"
    DEADLINE = "deadline"
    CANCEL = "cancel"
    DRAIN = "drain"
    LEASE_LOST = "lease_lost"
    WAITED = "waited"


class Ended(Protocol):
    """Called once, with the outcome, or with None when the task is to be handed back or is not ours any more."""

    def __call__(self, attempt: Attempt, outcome: Outcome | None, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a worker gives each attempt along."""

    submissions: Submissions
    desk: LedgerDesk
    deadline_in_s: float | None
    lease: Lease
    ended: Ended


class Attempt:
    """What the two ways to run a handler share: the clock, the first reason to stop, the one report."""

    def __init__(self, task: Task, kind: Kind, terms: Terms) -> None:
        self.task = task
        self.kind = kind
        self.desk = terms.desk
        self.why: Why | None = None
        self.started_at: float | None = None
        self.loop = asyncio.get_running_loop()
        self.submissions = terms.submissions
        self.lease = terms.lease
        self._deadline_in_s = terms.deadline_in_s
        self._claimed_at = time.monotonic()
        self._ended = terms.ended
        self._reported = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def run_s(self) -> float:
        return 0.0 if self.started_at is None else time.monotonic() - self.started_at

    @property
    def waited_s(self) -> float:
        """How long it was in hand before its handler began, or has been until now."""
        return (self.started_at or time.monotonic()) - self._claimed_at

    @property
    def overdue(self) -> bool:
        """Whether its deadline is over before it has begun."""
        waited_s = time.monotonic() - self._claimed_at
        return self._deadline_in_s is not None and self._deadline_in_s <= waited_s

    def begin(self) -> bool:
        """Start the clock; False when the deadline is over before anything has begun, and the clock ends it at once."""
        now = time.monotonic()
        limit_s, why = self.task.timeout_s, Why.TIMEOUT
        if self._deadline_in_s is not None:
            left_s = self._deadline_in_s - (now - self._claimed_at)
            if left_s < limit_s:
                limit_s, why = max(0.0, left_s), Why.DEADLINE
        self.started_at = now
        self._arm(limit_s, why)
        emit("task_started", task_id=self.task.id, kind=self.task.kind, attempt=self.task.attempt_count + 1)
        return limit_s > 0

    def _arm(self, limit_s: float, why: Why) -> None:
        self._timer = self.loop.call_later(limit_s, self.stop, why)

    def stop(self, why: Why) -> None:
        """Begin to end it; the first reason stands."""
        if self.why is None and not self._reported:
            self.why = why
            self._cancel_timer()
            self._stop()

    def _stop(self) -> None:
        raise NotImplementedError

    def report(self, outcome: Outcome | None) -> None:
        if not self._reported:
            self._reported = True
            self._cancel_timer()
            self._ended(self, None if outcome is None else outcomes.with_usage(outcome, self.desk.usage))

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
