"""Makes attempts of claimed tasks: in the worker's loop or in a child, with a quota or without."""

from __future__ import annotations

import asyncio

from forebay.engine.aside import aside
from forebay.engine.attempt import Attempt, Claimed, Ended, Terms
from forebay.engine.blocking import BlockingAttempt
from forebay.engine.desk import LedgerDesk
from forebay.engine.gate import Gate
from forebay.engine.inline import InlineAttempt
from forebay.engine.lease import Lease
from forebay.engine.pool import Pool
from forebay.engine.quotas import Quotas
from forebay.engine.registry import Kind
from forebay.engine.room import Room
from forebay.engine.submission import Submissions
from forebay.engine.wishes import Units, units_key
from forebay.model.task import Task
from forebay.stores.base import Ledger


class Starter:
    """Made in a running event loop. Calls `ended` for each that it made, once."""

    def __init__(
        self,
        ledger: Ledger,
        submissions: Submissions,
        *,
        name: str,
        lease: Lease,
        quotas: Quotas,
        gate: Gate,
        pool: Pool | None,
        room: Room,
        ended: Ended,
    ) -> None:
        self._ledger = ledger
        self._content = submissions.content
        self._name = name
        self._gate = gate
        self._own_gates: dict[str, Gate] = {}
        self._pool = pool
        self._terms = Terms(
            loop=asyncio.get_running_loop(),
            submissions=submissions,
            lease=lease,
            quotas=quotas,
            room=room,
            ended=ended,
        )

    def make(self, task: Task, kind: Kind, now: float, units: Units | None = None) -> Attempt:
        """`units` for those whose kind has a limit."""
        desk = LedgerDesk(self._ledger, task, self._name)
        deadline_in_s = None if task.deadline_at is None else task.deadline_at - now
        claimed = Claimed(task, kind, desk, deadline_in_s, units)
        if kind.blocking and self._pool is not None:
            return BlockingAttempt(claimed, self._terms, self._pool)
        return InlineAttempt(claimed, self._terms, self._gate_of(kind))

    def _gate_of(self, kind: Kind) -> Gate:
        if kind.places is None:
            return self._gate
        return self._own_gates.setdefault(kind.name, Gate(kind.places.in_all))

    async def units(self, task: Task, kind: Kind) -> Units:
        """Raises what a function of the user's does that tells them by the payload."""
        in_blob = callable(kind.units) and task.payload_blob is not None
        payload = await aside("payload", self._content.payload, task) if in_blob else task.payload
        return units_key(kind.units_of(payload))
