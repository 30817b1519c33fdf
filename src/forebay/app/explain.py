"""Says why a task or a job does not run now, and until when, from what the ledger knows."""

from __future__ import annotations

from forebay.clock import iso
from forebay.model.job import Job
from forebay.model.query import Query
from forebay.model.task import Status, Task, WaitReason
from forebay.rules import rollup
from forebay.rules.why import Gate, Reason, Surroundings, why
from forebay.stores.base import Ledger

_LOOKED_AT = 50


def explain(ledger: Ledger, found: Task | Job, *, now: float) -> tuple[Reason, ...]:
    """The first reason is what to look at."""
    return _job(ledger, found, now) if isinstance(found, Job) else _task(ledger, found, now)


def _task(ledger: Ledger, task: Task, now: float) -> tuple[Reason, ...]:
    if task.status is not Status.PENDING:
        return why(task, Surroundings(worker_count=0), now=now)
    workers = sum(task.kind in session.kinds and session.expires_at > now for session in ledger.sessions())
    ahead = ledger.ahead(task.id) if task.available_at <= now else 0
    return why(task, Surroundings(worker_count=workers, ahead_count=ahead, gates=_gates(ledger, task)), now=now)


def _gates(ledger: Ledger, task: Task) -> tuple[Gate, ...]:
    paused = next((lane for lane in ledger.lanes() if lane.name == task.lane and lane.paused_at is not None), None)
    if paused is None or paused.paused_at is None:
        return ()
    note = f" ({paused.note})" if paused.note else ""
    text = f"lane {task.lane!r} was paused at {iso(paused.paused_at)}{note}: `forebay lanes resume {task.lane}`"
    return (Gate(reason=WaitReason.PAUSED, text=text, until=paused.paused_until),)


def _job(ledger: Ledger, job: Job, now: float) -> tuple[Reason, ...]:
    if job.status.terminal:
        text = f"it is {job.status}"
        return (Reason(job.status, f"{text}: {job.error_text}" if job.error_text else text),)
    done = job.chunk_count - job.open_count
    share = f"{rollup.progress(job):.0%} done, {done} of {job.chunk_count} chunks"
    chain = [Reason("job", f"{share}, {job.running_count} running, {job.pending_count} waiting")]
    if job.cancel_requested_at is not None:
        chain.append(Reason("cancel_requested", "it was asked to stop"))
    waiting = _waiting(ledger, job)
    if waiting is not None:
        chain.extend(_task(ledger, waiting, now))
    return tuple(chain)


def _waiting(ledger: Ledger, job: Job) -> Task | None:
    """The task that the job waits for next: one that runs tells less than one that cannot."""
    for status in (Status.PENDING, Status.RUNNING):
        page = ledger.list_tasks(Query(job_id=job.id, status=status, size=_LOOKED_AT))
        if page.items:
            return min(page.items, key=lambda task: task.available_at)
    return None
