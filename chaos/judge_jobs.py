"""Judges every job of a run: its counters by a recount, its events by their numbers, its merge by its generation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from chaos.evidence import Evidence, Job, Task
from chaos.judge_tasks import TERMINAL

_JOB_ENDS = {f"job_{status}" for status in TERMINAL}


def jobs(evidence: Evidence) -> Iterator[str]:
    members: dict[str, list[Task]] = {job_id: [] for job_id in evidence.jobs}
    for task in evidence.tasks.values():
        if task.job_id in members:
            members[task.job_id].append(task)
    for job_id, job in evidence.jobs.items():
        found = [
            *_counters(job, members[job_id]),
            *_events(job, evidence.events[job_id], revived=evidence.revived[job_id]),
            *_merges(job, members[job_id]),
            *_outcome(job, members[job_id]),
        ]
        yield from (f"J job {job_id}: {text}" for text in found)
    for job_id in evidence.events.keys() - evidence.jobs.keys():
        yield f"J job {job_id}: has events, but there is no such job"


def _counters(job: Job, members: list[Task]) -> Iterator[str]:
    chunks = [task for task in members if task.role == "chunk"]
    rows = Counter(task.status for task in chunks)
    told = {
        "chunks": (job.chunk_count, len(chunks)),
        "open": (job.open_count, rows["pending"] + rows["running"]),
        "running": (job.running_count, rows["running"]),
        "completed": (job.completed_count, rows["completed"]),
        "failed": (job.failed_count, rows["failed"]),
        "canceled": (job.canceled_count, rows["canceled"]),
    }
    for name, (counted, recounted) in told.items():
        if counted != recounted:
            yield f"counts {counted} {name}, its rows are {recounted}"
    indexes = sorted(task.chunk_index for task in chunks if task.chunk_index is not None)
    if indexes != list(range(len(chunks))):
        yield f"its chunks are numbered {indexes}"


def _events(job: Job, events: list[tuple[int, str]], *, revived: int) -> Iterator[str]:
    if [number for number, _ in events] != list(range(1, job.event_count + 1)):
        yield f"counts {job.event_count} events, they are numbered {[number for number, _ in events]}"
    names = Counter(name for _, name in events)
    if names["job_created"] != 1:
        yield f"was created {names['job_created']} times by its events"
    ends = sum(names[name] for name in _JOB_ENDS)
    if ends != 1 + revived:
        yield f"ended {ends} times by its events, revived {revived} times"


def _merges(job: Job, members: list[Task]) -> Iterator[str]:
    """Exactly one merge where all chunks were closed in a way that allows one, and none elsewhere."""
    merges = [task for task in members if task.role == "merge"]
    for generation, count in Counter(task.generation for task in merges).items():
        if count != 1:
            yield f"has {count} merges in generation {generation}"
        if not 1 <= generation <= job.generation:
            yield f"has a merge of generation {generation}, and is in {job.generation} itself"
    current = [task for task in merges if task.generation == job.generation]
    if job.merge_id != (current[0].id if current else None):
        yield f"names merge {job.merge_id}, that of generation {job.generation} is {[task.id for task in current]}"
    chunks = [task for task in members if task.role == "chunk"]
    statuses = Counter(task.status for task in chunks)
    # A split that failed leaves no chunks, and nothing to merge.
    whole = statuses["completed"] > 0 and (job.allow_holes or statuses["completed"] == len(chunks))
    if job.status != "canceled" and whole != bool(current):
        yield f"has {len(current)} merges in generation {job.generation}, its chunks are {dict(statuses)}"
    for merge in current:
        if any(chunk.finished_at is None or chunk.finished_at > merge.created_at for chunk in chunks):
            yield "merged before its last chunk had ended"


def _outcome(job: Job, members: list[Task]) -> Iterator[str]:
    if job.status not in TERMINAL or job.finished_at is None:
        yield f"is {job.status} at the end, finished at {job.finished_at}"
    current = [task.status for task in members if task.role == "merge" and task.generation == job.generation]
    if job.status == "completed" and current != ["completed"]:
        yield f"is completed, its merge is {current}"
    if job.status == "failed" and "completed" in current:
        yield "is failed, its merge is completed"
