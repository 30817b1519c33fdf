"""Nouns with everything filled in, so that a test names only what it is about."""

from __future__ import annotations

from forebay import ids
from forebay.errors import ForebayError
from forebay.model.job import Job, NewJob
from forebay.model.outcome import Outcome
from forebay.model.task import NewTask, Role, Status, Task
from forebay.rules import settlement
from forebay.rules import unit as units
from forebay.rules.unit import Unit

NOW = 1_800_000_000.0
BLOB = "0123456789abcdef" * 4
JOB_ID = ids.derived_id("the job")
TASK_ID = ids.derived_id("the task")
SESSION_ID = ids.derived_id("the session")


def task(**changes: object) -> Task:
    """A lone task in its third attempt, claimed a moment ago."""
    running = Task(
        id=TASK_ID,
        kind="work",
        lane="work",
        tenant="default",
        status=Status.RUNNING,
        role=Role.LONE,
        job_id=None,
        chunk_index=None,
        generation=1,
        priority=0,
        flow=None,
        tag=1,
        tags=(),
        idempotency_key=None,
        payload_hash=None,
        payload_blob=None,
        timeout_s=60.0,
        deadline_at=None,
        max_retries=3,
        max_reschedules=None,
        created_at=NOW - 100,
        available_at=NOW - 50,
        claim_count=3,
        attempt_count=2,
        session_id=SESSION_ID,
        exchange_n=1,
        claimed_at=NOW - 1,
        attempt_deadline_at=NOW + 89,
    )
    return running._replace(**changes)  # type: ignore[arg-type]  # a wrong name fails at once


def job(**changes: object) -> Job:
    """A job that has begun; its counters are as given."""
    fields = {
        "id": JOB_ID,
        "pipeline": "ocr",
        "tenant": "default",
        "status": Status.RUNNING,
        "generation": 1,
        "created_at": NOW - 100,
        "document": None,
        "label": None,
        "idempotency_key": None,
        "payload_hash": None,
        "tags": (),
        "allow_holes": False,
        "merge_json": None,
        "started_at": NOW - 90,
    }
    return Job(**(fields | changes))  # type: ignore[arg-type]  # a wrong name fails at once


def chunk(index: int, **options: object) -> NewTask:
    fields = {"kind": "page", "payload": {"chunk": index}, "role": Role.CHUNK, "chunk_index": index}
    return NewTask(**(fields | options))  # type: ignore[arg-type]  # NewTask checks them


def follow(key: str) -> NewTask:
    return NewTask(kind="callback", role=Role.FOLLOW, idempotency_key=key)


MERGE = NewTask(kind="merge", role=Role.MERGE)


def new_job(chunks: int = 2, *, merge: NewTask | None = MERGE, max_retries: int = 3, **options: object) -> NewJob:
    tasks = tuple(chunk(index, max_retries=max_retries) for index in range(chunks))
    return NewJob(pipeline="ocr", tasks=tasks, merge=merge, **options)  # type: ignore[arg-type]  # NewJob checks them


def split_job(*, merge: NewTask | None = MERGE, **options: object) -> NewJob:
    tasks = (NewTask(kind="split", role=Role.SPLIT),)
    return NewJob(pipeline="ocr", tasks=tasks, merge=merge, **options)  # type: ignore[arg-type]  # NewJob checks them


def made(new: NewTask | NewJob, *, now: float = NOW) -> Unit:
    return units.create(new, now)


def the_job(unit: Unit) -> Job:
    assert unit.job is not None
    return unit.job


def chunks_of(unit: Unit) -> list[Task]:
    return [task for task in unit.tasks.values() if task.role is Role.CHUNK]


def merges_of(unit: Unit) -> list[Task]:
    return [task for task in unit.tasks.values() if task.role is Role.MERGE]


def take(unit: Unit, task_id: str, *, now: float = NOW) -> Task:
    return units.claim(unit, unit.tasks[task_id], session_id=SESSION_ID, n=1, grace_s=30.0, now=now)


def settle(unit: Unit, task_id: str, outcome: Outcome, *, now: float = NOW) -> None:
    """End the attempt of a running task as a worker does: decide first, then write."""
    held = unit.tasks[task_id]
    decided = settlement.decide(held, outcome, now=now, jitter=0.5)
    ending = settlement.settled(held, decided, now)
    units.end(unit, held, ending, worker="w1", now=now, settle=decided)


def run(unit: Unit, task_id: str, outcome: Outcome, *, now: float = NOW) -> None:
    """One attempt from claim to settle."""
    take(unit, task_id, now=now)
    settle(unit, task_id, outcome, now=now)


def names_of(unit: Unit) -> list[str]:
    return [event.name for event in unit.events]


def assert_helpful(error: ForebayError) -> None:
    """Says what to do, in a text that fits a terminal whatever the foreign value was."""
    assert error.remedy
    assert len(str(error)) <= 400
    assert str(error).isprintable()
