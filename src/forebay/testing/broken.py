"""Ledgers with one flaw each, as they are often written: whoever judges ledgers must find them out."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from forebay.model.exchange import Acted, Action, Release, Reply, Session, Settle, Settled, Want
from forebay.model.task import Role, Status, Task
from forebay.stores.base import MAX_RESCUED
from forebay.stores.memory.ledger import MemoryLedger

T = TypeVar("T")


class UnfencedLedger(MemoryLedger):
    """Settles by id: `UPDATE … WHERE id = ? AND status = 'running'`, whoever runs the task by now."""

    def _settle(self, settle: Settle, worker: str, now: float) -> Settled:
        task = self._task(settle.task_id)
        if task is None or task.status is not Status.RUNNING:
            return super()._settle(settle, worker, now)
        settled = super()._settle(settle._replace(token=task.claim_count), worker, now)
        return settled._replace(token=settle.token)


class RowCountingLedger(MemoryLedger):
    """Finds the last chunk by `SELECT count(*) … WHERE status NOT IN (…)` in each settle's own snapshot.

    The settles of one exchange stand for transactions that run at the same time: all of them count before any
    has committed. So of two last chunks each sees the other still open, and nobody makes the merge.
    """

    def exchange(
        self,
        session_id: str,
        n: int,
        *,
        settles: Sequence[Settle] = (),
        releases: Sequence[Release] = (),
        wants: Sequence[Want] = (),
    ) -> Reply:
        self._counted = {unit.id: unit.job.open_count for unit in self._units() if unit.job}
        return super().exchange(session_id, n, settles=settles, releases=releases, wants=wants)

    def _settle(self, settle: Settle, worker: str, now: float) -> Settled:
        unit = self._stored.get(settle.job_id or settle.task_id)
        if unit is None or unit.job is None:
            return super()._settle(settle, worker, now)
        behind = unit.job.open_count - self._counted[unit.id]
        unit.job = replace(unit.job, open_count=unit.job.open_count - behind)
        try:
            return super()._settle(settle, worker, now)
        finally:
            unit.job = replace(unit.job, open_count=unit.job.open_count + behind)


class NumberlessLedger(MemoryLedger):
    """Takes every exchange for a new one: a repeat claims again, and what the lost reply named is forgotten."""

    def _enter(self, session_id: str, n: int, now: float) -> tuple[Session | None, bool]:
        session, _ = super()._enter(session_id, n, now)
        return session, False


class ForgetfulLedger(MemoryLedger):
    """Answers the repeat of a settle as if it came too late, so that finished work is thrown away."""

    def _settle(self, settle: Settle, worker: str, now: float) -> Settled:
        task = self._task(settle.task_id)
        if task is None or task.status is not Status.RUNNING or task.claim_count != settle.token:
            return Settled(settle.task_id, settle.token, fenced=True)
        return super()._settle(settle, worker, now)


class RestlessLedger(MemoryLedger):
    """Knows which lanes are paused and says so, but claims as if none were."""

    def _candidates(self, kind: str, lane: str | None, now: float, paused: Container[str] = ()) -> Iterator[Task]:  # noqa: ARG002 - the flaw
        return super()._candidates(kind, lane, now)


class SilentLedger(MemoryLedger):
    """Leaves a job's callback where its worker settles, and nowhere else: cancels and rescues end in silence."""

    def cancel(self, ids: Sequence[str], action: Action) -> list[Acted]:
        return self._without_callbacks(lambda: super(SilentLedger, self).cancel(ids, action))

    def rescue(self, *, most: int = MAX_RESCUED) -> list[str]:
        return self._without_callbacks(lambda: super(SilentLedger, self).rescue(most=most))

    def _without_callbacks(self, run: Callable[[], T]) -> T:
        before = set(self._home)
        answer = run()
        for task_id in set(self._home) - before:
            unit = self._stored[self._home[task_id]]
            if unit.tasks[task_id].role is Role.FOLLOW:
                del unit.tasks[task_id], self._home[task_id]
                self._index.forget(task_id)
        return answer
