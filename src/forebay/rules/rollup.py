"""Derives a job's counters, status, progress and failure text from what happened to its tasks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from forebay.model.job import Event, Job, member
from forebay.model.payload import clean_text
from forebay.model.task import NewTask, Role, Status
from forebay.rules import announcing
from forebay.rules.verdict import ErrorClass

JOB_TIMEOUT = "Job cancelled due to timeout"
_MAX_TEXT = 64 * 1024
_TEMPLATE_FIELDS = (
    "kind",
    "payload",
    "payload_blob",
    "environment",
    "limit",
    "priority",
    "deadline_at",
    "timeout_s",
    "max_retries",
    "max_reschedules",
    "fairness_key",
    "tags",
)


class Tally(NamedTuple):
    """By how much a job's counters change; only chunks are counted."""

    chunk_count: int = 0
    open_count: int = 0
    running_count: int = 0
    completed_count: int = 0
    failed_count: int = 0
    canceled_count: int = 0

    def plus(self, other: Tally) -> Tally:
        return Tally(*map(sum, zip(self, other, strict=True)))

    def times(self, count: int) -> Tally:
        return Tally(*(n * count for n in self))


_OF = {
    Status.PENDING: Tally(open_count=1),
    Status.RUNNING: Tally(open_count=1, running_count=1),
    Status.COMPLETED: Tally(completed_count=1),
    Status.FAILED: Tally(failed_count=1),
    Status.CANCELED: Tally(canceled_count=1),
}


def tally(role: Role, before: Status | None, after: Status) -> Tally:
    """The change that one task's step makes; `before` is None for a task that is new."""
    if role is not Role.CHUNK:
        return Tally()
    if before is None:
        return _OF[after].plus(Tally(chunk_count=1))
    return _OF[after].plus(Tally(*(-n for n in _OF[before])))


def joined(job: Job, roles: Iterable[Role]) -> Job:
    """Count new tasks of these roles."""
    for role, count in Counter(roles).items():
        job = counted(job, tally(role, None, Status.PENDING).times(count))
    return job


def counted(job: Job, change: Tally) -> Job:
    if not any(change):
        return job  # of a split, say, which no job counts
    return replace(job, **{name: getattr(job, name) + n for name, n in change._asdict().items()})


def started(job: Job, now: float) -> Job:
    return replace(job, status=Status.RUNNING, started_at=job.started_at or now)


def noted(job: Job) -> Job:
    """One more event: its number is the new count."""
    return replace(job, event_count=job.event_count + 1)


class Ended(NamedTuple):
    """A task of a job that reached a terminal status."""

    id: str
    role: Role
    status: Status
    generation: int
    error_class: str | None
    error_text: str | None


class Hole(NamedTuple):
    """A chunk without a result."""

    chunk_index: int
    error_class: str | None
    error_text: str | None
    page_start: int | None = None
    page_end: int | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What the end of some tasks does to their job."""

    job: Job
    tasks: tuple[NewTask, ...] = ()
    events: tuple[Event, ...] = field(default=())


def effect(job: Job, ended: Sequence[Ended], holes: Callable[[], Sequence[Hole]], now: float) -> Effect:
    """`job` has its counters brought up to date already; `holes` is asked only when the last chunk closed."""
    for task in ended:
        if task.role is Role.MERGE and task.generation == job.generation:
            return _stage_ended(job, task, now)
        if task.role is Role.SPLIT and task.status is not Status.COMPLETED:
            return _stage_ended(job, task, now)
    if job.open_count or job.status.terminal or not any(task.role in {Role.CHUNK, Role.SPLIT} for task in ended):
        return Effect(job)
    return chunks_closed(job, holes(), now)


def chunks_closed(job: Job, holes: Sequence[Hole], now: float) -> Effect:
    """Nothing of the job is open: merge it, complete it, or say why it failed."""
    if job.cancel_requested_at is not None:
        return finish(job, Status.CANCELED, ErrorClass.CANCELED, "Canceled", now)
    if holes and not (job.allow_holes and job.completed_count):
        error = (f"{job.pipeline}_failed", failure_text(job.chunk_count, holes))
        if any(_timed_out(hole) for hole in holes):
            error = (str(ErrorClass.TIMEOUT), JOB_TIMEOUT)
        again_failed = job.generation > 1
        failed = finish(job, Status.FAILED, *error, now, noted_before=int(again_failed))
        if not again_failed:
            return failed
        again = Event(name="retry_partial_failure", fields={"failed": len(holes), "kept": job.completed_count})
        return replace(failed, events=(again, *failed.events))
    if job.merge_json is None:
        return finish(job, Status.COMPLETED, None, None, now)
    merge = merge_task(job)
    name = "merging_with_holes" if holes else "all_chunks_completed_merging"
    event = Event(name=name, fields={"chunks": job.chunk_count, "holes": len(holes)})
    return Effect(replace(job, merge_id=merge.id), (merge,), (event,))


def _stage_ended(job: Job, task: Ended, now: float) -> Effect:
    if task.status is Status.COMPLETED:
        return finish(job, Status.COMPLETED, None, None, now)
    if task.status is Status.CANCELED:
        return finish(job, Status.CANCELED, ErrorClass.CANCELED, task.error_text, now)
    if _timed_out(task):
        return finish(job, Status.FAILED, ErrorClass.TIMEOUT, JOB_TIMEOUT, now)
    text = f"{task.role} failed: {task.error_class}: {task.error_text}"
    return finish(job, Status.FAILED, f"{job.pipeline}_failed", text, now)


def _timed_out(ended: Ended | Hole) -> bool:
    """Whether the time of the whole job was over, not that of one attempt."""
    return ended.error_class == ErrorClass.TIMEOUT and JOB_TIMEOUT in (ended.error_text or "")


def finish(
    job: Job, status: Status, error_class: str | None, error_text: str | None, now: float, *, noted_before: int = 0
) -> Effect:
    """`noted_before`: as many other events come first."""
    fields = {} if error_class is None else {"error_class": error_class, "error_text": clean_text(error_text or "")}
    ended = replace(job, status=status, error_class=error_class, error_text=error_text, finished_at=now)
    # Every way that a job can end comes by here, so that none of them forgets its callback.
    callbacks = announcing.ended(ended, job.event_count + noted_before + 1, now)
    return Effect(ended, callbacks, (Event(name=f"job_{status}", fields=fields),))


def merge_template(merge: NewTask | None) -> str | None:
    """What a job row keeps of its merge until the merge is made."""
    return None if merge is None else json.dumps({name: getattr(merge, name) for name in _TEMPLATE_FIELDS})


def merge_task(job: Job) -> NewTask:
    """The merge of the job's present generation: its id follows from both, so making it twice is harmless."""
    fields = json.loads(job.merge_json or "{}")
    template = NewTask(**fields | {"role": Role.MERGE, "tags": tuple(fields["tags"])})
    return member(template, job.id, tenant=job.tenant, generation=job.generation)


def progress(job: Job) -> float:
    """The share of the job that needs no more work, from 0 to 1; the merge counts as one more chunk."""
    if job.status is Status.COMPLETED:
        return 1.0
    steps = job.chunk_count + (job.merge_json is not None)
    return (job.chunk_count - job.open_count) / steps if steps else 0.0


def failure_text(chunk_count: int, holes: Sequence[Hole]) -> str:
    """Every chunk without a result is named; those that failed alike are named together."""
    head = f"{len(holes)} of {chunk_count} chunks failed: "
    named = _named(holes, with_texts=True)
    # Too many different texts: rather none of them than a chunk that is not named.
    return head + (named if len(named) <= _MAX_TEXT else _named(holes, with_texts=False))


def _named(holes: Sequence[Hole], *, with_texts: bool) -> str:
    alike: dict[str, list[Hole]] = {}
    for hole in sorted(holes, key=lambda hole: (hole.page_start or 0, hole.chunk_index)):
        error = hole.error_class or "unknown"
        if with_texts and hole.error_text:
            error = f"{error}: {clean_text(hole.error_text, most=300)}"
        alike.setdefault(error, []).append(hole)
    return "; ".join(f"{_places(same)} ({error})" for error, same in alike.items())


def _places(holes: Sequence[Hole]) -> str:
    """The pages, as far as they are known, and the numbers of chunks that have none."""
    pages = [(hole.page_start, hole.page_end or hole.page_start) for hole in holes if hole.page_start is not None]
    indexes = [(hole.chunk_index, hole.chunk_index) for hole in holes if hole.page_start is None]
    return ", ".join(_ranges(noun, found) for noun, found in (("page", pages), ("chunk", indexes)) if found)


def _ranges(noun: str, ranges: Iterable[tuple[int, int]]) -> str:
    runs: list[tuple[int, int]] = []
    for first, last in ranges:
        if runs and first == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], last)
        else:
            runs.append((first, last))
    listed = ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
    return f"{noun} {listed}" if len(runs) == 1 and runs[0][0] == runs[0][1] else f"{noun}s {listed}"
