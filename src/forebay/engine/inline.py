"""Runs an async handler in the worker's own loop."""

from __future__ import annotations

import asyncio

from forebay import failpoint
from forebay.engine import outcomes
from forebay.engine.attempt import Attempt, Claimed, Terms, Why
from forebay.engine.context import Context
from forebay.engine.gate import Gate
from forebay.engine.registry import call_arguments
from forebay.engine.split import chunks_of
from forebay.engine.watch import Watch
from forebay.model.outcome import Canceled, Completed, Outcome, Rescheduled

_ABANDON_S = 2.0


class InlineAttempt(Attempt):
    """Stopping it cancels the handler; one that will not be cancelled is left behind after two seconds."""

    def __init__(self, claimed: Claimed, terms: Terms, gate: Gate) -> None:
        super().__init__(claimed, terms)
        self._gate = gate
        self._context = Context(self.task, self.desk, terms.submissions.content, calls=lambda: self.calls)
        self._runner: asyncio.Task[None] | None = None

    def _enter(self) -> None:
        self._gate.add(self, first=self.slot is not None)

    def _take_back(self) -> bool:
        return self._gate.take_back(self)

    def _watch(self) -> Watch | None:
        return self._gate.watch

    def go(self) -> None:
        self._runner = self.loop.create_task(self._run())

    def report(self, outcome: Outcome | None) -> None:
        began = self._runner is not None and not self._reported
        super().report(outcome)
        if began:
            self._gate.freed(self)

    def _stop(self) -> None:
        if self._runner is None:
            self._gate.take_back(self)
            self.report_stopped()
            return
        self._context.stop()
        self._runner.cancel()
        # Its slot and its task go on without it.
        self.later(_ABANDON_S, self.report_stopped)

    async def _run(self) -> None:
        outcome: Outcome | None
        try:
            outcome = await self._handled()
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is an outcome
            outcome = outcomes.of_error(error)
            # A handler may have been cancelled by its own doing, too.
            if self.why is not None and isinstance(error, asyncio.CancelledError):
                outcome = self.stopped()
        if self.why in {Why.TIMEOUT, Why.DEADLINE, Why.LEASE_LOST}:
            outcome = self.stopped()
        self.report(outcome)

    async def _handled(self) -> Outcome | None:
        content = self.submissions.content
        if self.task.payload_blob is None:
            payload = self.task.payload
        else:
            payload = await asyncio.to_thread(content.payload, self.task)
        if self.slot is not None:
            await self.slot.astart()
        if not self.lease.sure:
            return None  # frozen meanwhile: it may be another's by now
        if not self.begin():
            return outcomes.past_deadline()
        self._context.begin()
        positional, named = call_arguments(payload)
        value = await self.kind.handler(self._context, *positional, **named)
        failpoint.reach("response_read")
        if isinstance(value, (Completed, Rescheduled, Canceled)):
            return value  # a pipeline of ours, which has stored its result and knows what follows
        if self.kind.chunk_kind is not None:
            return await asyncio.to_thread(chunks_of, value, self.task, self.kind, self.submissions)
        text = content.small(value)
        if text is not None:
            return Completed(result_json=text)
        return await asyncio.to_thread(content.completed, value, self.task.tenant)
