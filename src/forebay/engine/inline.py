"""Runs an async handler in the worker's own loop."""

from __future__ import annotations

import asyncio

from forebay import failpoint
from forebay.engine import outcomes
from forebay.engine.attempt import Attempt, Claimed, Terms, Why
from forebay.engine.context import Context
from forebay.engine.gate import Gate
from forebay.engine.registry import call_arguments
from forebay.engine.slots import Calls
from forebay.engine.split import chunks_of
from forebay.engine.watch import Watch
from forebay.model.outcome import Canceled, Completed, Outcome, Rescheduled

_ABANDON_S = 2.0


class InlineAttempt(Attempt):
    """Stopping it cancels the handler; one that will not be cancelled is left behind after two seconds."""

    def __init__(self, claimed: Claimed, terms: Terms, gate: Gate) -> None:
        super().__init__(claimed, terms)
        self._gate = gate
        self._context: Context | None = None
        self._runner: asyncio.Task[None] | None = None

    def _enter(self) -> None:
        self._gate.add(self, first=self.slot is not None)

    def _take_back(self) -> bool:
        return self._gate.take_back(self)

    def _watch(self) -> Watch | None:
        return self._gate.watch

    @property
    def has_place(self) -> bool:
        return self._runner is not None

    def go(self) -> None:
        self._runner = self.loop.create_task(self._run())

    def report(self, outcome: Outcome | None) -> None:
        began = self._runner is not None and not self._reported
        super().report(outcome)
        self._context = None  # which knows us: a circle would be left for the collector
        if began:
            self._gate.freed(self)

    def _stop(self) -> None:
        if self._runner is None:
            self._gate.take_back(self)
            self.report_stopped()
            return
        if self._context is not None:
            self._context.stop()
        # One that is cancelled before its first step says nothing itself.
        self._runner.add_done_callback(lambda _: self.report_stopped())
        self._runner.cancel()
        # Its slot and its task go on without it.
        self.later(_ABANDON_S, self.report_stopped)

    async def _run(self) -> None:
        outcome: Outcome | None
        task, content = self.task, self.submissions.content
        try:
            in_blob = task.payload_blob is not None
            payload = await asyncio.to_thread(content.payload, task) if in_blob else task.payload
            if self.slot is not None:
                await self.slot.astart()
            if not self.lease.sure:
                outcome = None  # frozen meanwhile: it may be another's by now
            elif not self.begin():
                outcome = outcomes.past_deadline()
            else:
                positional, named = call_arguments(payload)
                self._context = Context(task, self.desk, content, calls=self._own_calls, waited_s=self.waited_s)
                value = await self.kind.handler(self._context, *positional, **named)
                failpoint.reach("response_read")
                outcome = self._known(value) or await self._stored(value)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is an outcome
            outcome = outcomes.of_error(error)
            # A handler may have been cancelled by its own doing, too.
            if self.why is not None and isinstance(error, asyncio.CancelledError):
                outcome = self.stopped()
        if self.why is not None and self.why in {Why.TIMEOUT, Why.DEADLINE, Why.LEASE_LOST}:
            outcome = self.stopped()
        self.report(outcome)

    def _known(self, value: object) -> Outcome | None:
        """What came of it, if nothing has to be stored beside."""
        if isinstance(value, (Completed, Rescheduled, Canceled)):
            return value  # a pipeline of ours, which has stored its result and knows what follows
        text = self.submissions.content.small(value) if self.kind.chunk_kind is None else None
        return None if text is None else Completed(result_json=text)

    async def _stored(self, value: object) -> Outcome:
        """What is not small, or is a list of chunks, takes its time."""
        if self.kind.chunk_kind is not None:
            return await asyncio.to_thread(chunks_of, value, self.task, self.kind, self.submissions)
        return await asyncio.to_thread(self.submissions.content.completed, value, self.task.tenant)

    def _own_calls(self) -> Calls:
        return self.calls
