"""Judges a ledger by what it answers, whatever was done to it before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from forebay.model.callback import KIND as CALLBACK
from forebay.model.job import Event, Job
from forebay.model.query import MAX_PAGE, Page, Query
from forebay.model.task import Attempt, Role, Status, Task
from forebay.stores.base import Ledger

_OPEN = {Status.PENDING, Status.RUNNING}
_JOB_ENDS = {"job_completed", "job_failed", "job_canceled"}
_ENDS_AS = {
    "completed": {Status.COMPLETED},
    "retried": {Status.PENDING},
    "rescheduled": {Status.PENDING},
    "released": {Status.PENDING},
    "lost": {Status.PENDING, Status.FAILED},
    "failed": {Status.FAILED},
    "canceled": {Status.CANCELED},
}


class Contents(NamedTuple):
    """All that a ledger answers, read once."""

    tasks: list[Task]
    jobs: list[Job]
    history: dict[str, list[Attempt]]
    events: dict[str, list[Event]]
    counts: dict[tuple[str, Status], int]
    held: dict[str, int]
    complaints: list[str]


def read(ledger: Ledger) -> Contents:
    tasks = all_tasks(ledger)
    jobs = all_jobs(ledger)
    holders = {task.session_id for task in tasks if task.status is Status.RUNNING and task.session_id}
    return Contents(
        tasks=tasks,
        jobs=jobs,
        history={task.id: ledger.history(task.id) for task in tasks},
        events={job.id: all_events(ledger, job.id) for job in jobs},
        counts={key: n for key, n in ledger.count().items() if n},
        held={session_id: len(ledger.mine(session_id)) for session_id in holders},
        complaints=ledger.check(),
    )


def problems(ledger: Ledger) -> list[str]:
    """One line for each promise that does not hold; none in a sound ledger."""
    return judged(read(ledger))


def judged(contents: Contents) -> list[str]:
    found = [*contents.complaints, *_counts(contents)]
    members: dict[str, list[Task]] = {job.id: [] for job in contents.jobs}
    orphans: list[Task] = []
    for task in contents.tasks:
        found += [f"task {task.id}: {text}" for text in _task(task, contents.history[task.id])]
        if task.job_id is not None:
            members.get(task.job_id, orphans).append(task)
    for job in contents.jobs:
        found += [f"job {job.id}: {text}" for text in _job(job, members[job.id], contents.events[job.id])]
    return found + [f"task {task.id}: its job is gone" for task in orphans]


def all_tasks(ledger: Ledger, job_id: str | None = None) -> list[Task]:
    tasks: list[Task] = []
    page: Page[Task] = ledger.list_tasks(Query(job_id=job_id, size=MAX_PAGE))
    tasks.extend(page.items)
    while page.next is not None:
        page = ledger.list_tasks(Query(job_id=job_id, size=MAX_PAGE, after=page.next))
        tasks.extend(page.items)
    return tasks


def all_jobs(ledger: Ledger) -> list[Job]:
    page = ledger.list_jobs(Query(size=MAX_PAGE))
    jobs = list(page.items)
    while page.next is not None:
        page = ledger.list_jobs(Query(size=MAX_PAGE, after=page.next))
        jobs.extend(page.items)
    return jobs


def all_events(ledger: Ledger, job_id: str) -> list[Event]:
    events = ledger.events(job_id)
    while more := ledger.events(job_id, after=events[-1].number if events else 0):
        events.extend(more)
    return events


def _counts(contents: Contents) -> Iterator[str]:
    rows = Counter((task.kind, task.status) for task in contents.tasks)
    if contents.counts != rows:
        yield f"count() says {contents.counts}, the rows are {dict(rows)}"
    if len({task.id for task in contents.tasks}) != len(contents.tasks):
        yield "a task is listed twice"
    held = Counter(task.session_id for task in contents.tasks if task.status is Status.RUNNING)
    if contents.held != held:
        yield f"mine() tells of {contents.held}, the rows of {dict(held)}"


def _task(task: Task, history: list[Attempt]) -> Iterator[str]:
    if (task.finished_at is not None) != task.status.terminal:
        yield f"{task.status}, yet finished_at is {task.finished_at}"
    if task.status is Status.RUNNING and None in {task.session_id, task.exchange_n, task.attempt_deadline_at}:
        yield "running without a holder, a number or a deadline"
    if task.status is Status.PENDING and task.cancel_requested_at is not None:
        yield "pending, though it was asked to end"
    tokens = [past.token for past in history]
    if any(a >= b for a, b in pairwise(tokens)):
        yield f"tokens do not rise in its history: {tokens}"
    if tokens and tokens[-1] > task.claim_count - (task.status is Status.RUNNING):
        yield f"an attempt with token {tokens[-1]} has ended, after {task.claim_count} claims, while {task.status}"
    if [past.attempt for past in history] != list(range(1, task.attempt_count + 1)):
        yield f"{task.attempt_count} attempts, history numbers {[past.attempt for past in history]}"
    for past in history:
        if past.status not in _ENDS_AS.get(past.outcome, set()):
            yield f"an attempt {past.outcome} left it {past.status}"


def _job(job: Job, tasks: list[Task], events: list[Event]) -> Iterator[str]:
    chunks = [task for task in tasks if task.role is Role.CHUNK]
    rows = Counter(task.status for task in chunks)
    told = Counter(
        {
            Status.PENDING: job.pending_count,
            Status.RUNNING: job.running_count,
            Status.COMPLETED: job.completed_count,
            Status.FAILED: job.failed_count,
            Status.CANCELED: job.canceled_count,
        }
    )
    if +told != rows or job.chunk_count != len(chunks):
        yield f"counts {dict(+told)} of {job.chunk_count}, the rows are {dict(rows)}"
    if [event.number for event in events] != list(range(1, job.event_count + 1)):
        yield f"{job.event_count} events, numbered {[event.number for event in events]}"
    if (job.finished_at is not None) != job.status.terminal:
        yield f"{job.status}, yet finished_at is {job.finished_at}"
    if job.callback_json is not None:
        yield from _callbacks(tasks, events)
    yield from _stages(job, tasks)


def _callbacks(tasks: list[Task], events: list[Event]) -> Iterator[str]:
    """Each end of the job has left one, named by the number of its event."""
    left = {task.idempotency_key for task in tasks if task.kind == CALLBACK}
    for event in events:
        if event.name in _JOB_ENDS and f"callback {event.number}" not in left:
            yield f"{event.name}, event {event.number}, has no callback"


def _stages(job: Job, tasks: list[Task]) -> Iterator[str]:
    merges = Counter(task.generation for task in tasks if task.role is Role.MERGE)
    if any(n > 1 for n in merges.values()):
        yield f"more than one merge in a generation: {dict(merges)}"
    current = [task for task in tasks if task.role is Role.MERGE and task.generation == job.generation]
    if job.merge_id != (current[0].id if current else None):
        yield f"merge_id is {job.merge_id}, the merge of generation {job.generation} is {current}"
    if current and any(task.status in _OPEN for task in tasks if task.role in {Role.SPLIT, Role.CHUNK}):
        yield "merges while chunks are open"
    if job.merge_json and job.status is Status.COMPLETED and not any(m.status is Status.COMPLETED for m in current):
        yield "completed without its merge"
    working = [task for task in tasks if task.status in _OPEN and task.role is not Role.FOLLOW]
    if not job.status.terminal and not working:
        yield f"{job.status}, but nothing of it is left to run"
    if job.status.terminal and any(task.role is not Role.MERGE or task in current for task in working):
        yield f"{job.status}, but {working[0].role} {working[0].id} is {working[0].status}"
