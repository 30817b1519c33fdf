"""Runs a blocking handler in a child process, which is killed if it does not stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from forebay import failpoint
from forebay.engine import outcomes, report
from forebay.engine.attempt import Attempt, Claimed, Terms, Why
from forebay.engine.split import chunks_of
from forebay.engine.watch import Watch
from forebay.engine.wire import Message
from forebay.errors import ForebayError
from forebay.limits.slot import Slot
from forebay.model.outcome import Canceled, Failed, Outcome
from forebay.rules.verdict import ErrorClass

if TYPE_CHECKING:
    from forebay.engine.children import Child, ChildEnded
    from forebay.engine.pool import Pool


class BlockingAttempt(Attempt):
    """Waits in the pool, then at a child behind others, then runs there."""

    def __init__(self, claimed: Claimed, terms: Terms, pool: Pool) -> None:
        super().__init__(claimed, terms)
        self._pool = pool
        self._ladder: asyncio.Task[None] | None = None
        self._splitting: asyncio.Task[None] | None = None
        self.child: Child | None = None
        self.ticket = [self.task.id, self.task.claim_count]
        self._entering: asyncio.Task[None] | None = None

    def _enter(self) -> None:
        if self.slot is None:
            self._pool.add(self)
        else:
            self._entering = self.loop.create_task(self._enter_with(self.slot))

    async def _enter_with(self, slot: Slot) -> None:
        try:
            await slot.astart()
        except ForebayError:
            self.stop(Why.WAITED)
            return
        if self.why is None and self.slot is slot:
            self._pool.add(self)

    def report(self, outcome: Outcome | None) -> None:
        if self._entering is not None:
            self._entering.cancel()  # else it might still be given the slot that goes back now
        super().report(outcome)

    @property
    def sure_until(self) -> float:
        """Until when its handler may begin without asking: its task is ours by then, and its slot counts."""
        until = self.lease.sure_until
        return until if self.slot is None else min(until, self.slot.fresh_until)

    async def may_begin(self) -> bool:
        """Asked by its child, which has come to its handler later than that."""
        if self.slot is not None:
            try:
                await self.slot.astart()
            except ForebayError:
                return False
        return self.why is None and self.lease.sure

    def _take_back(self) -> bool:
        return self._pool.take_back(self)

    def _watch(self) -> Watch | None:
        return None if self.child is None else self.child.watch

    def _stop(self) -> None:
        if self.started_at is None and (self._pool.take_back(self) or self.child is None):
            self.report_stopped()
        elif self.child is not None:
            self._ladder = self.loop.create_task(self._climb(self.child))

    async def _climb(self, child: Child) -> None:
        await child.stop(self, str(self.why))
        if self not in child.queue and self._splitting is None:
            # Killed, or its ticket was taken back before it began; what it answered in time stands.
            self.report_stopped()

    def answered(self, message: Message) -> None:
        failpoint.reach("response_read")
        if "unbegun" in message:
            self.started_at = None  # its slot was not used
        if "unsure" in message:
            # Its handler did not begin.
            self.started_at = None
            self.report_stopped()
        elif self.why in {Why.TIMEOUT, Why.DEADLINE, Why.LEASE_LOST}:
            self.report_stopped()
        elif "chunks" in message:
            self._splitting = self.loop.create_task(self._split(message["chunks"]))
        else:
            outcome = report.unpack(message)
            # It stopped at a checkpoint because we asked: what that means, the reason says.
            self.report(self.stopped() if isinstance(outcome, Canceled) and self.why is not None else outcome)

    async def _split(self, payloads: list[object]) -> None:
        outcome: Outcome
        try:
            outcome = await asyncio.to_thread(chunks_of, payloads, self.task, self.kind, self.submissions)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it is the handler's outcome
            outcome = outcomes.of_error(error)
        self.report(outcome)

    def crashed(self, ended: ChildEnded) -> None:
        """Its child ended by itself while it ran."""
        if self.why is not None:
            self.report_stopped()
        elif ended.said is not None:
            text = f"Its handler child could not start: {ended.said}"
            self.report(Failed(error_class=ErrorClass.SERVICE_UNAVAILABLE, text=text))
        else:
            self.report(outcomes.crashed(ended.code, str(ended)))
