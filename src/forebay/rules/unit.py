"""Applies every step to the unit of atomicity: a lone task, or a job with its tasks, history and events.

Stores that hold a unit whole (memory, objects) run all their steps through here. SQL stores use it for new
units and for the rare actions of people; their hot path writes the same endings and tallies in batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from forebay.errors import BadInput
from forebay.model.exchange import Acted, Settle, Usage
from forebay.model.job import Event, Job, NewJob, member
from forebay.model.task import Attempt, NewTask, Role, Status, Task, WaitReason
from forebay.rules import announcing, rollup
from forebay.rules.fairness import flow_of
from forebay.rules.rollup import Ended, Hole
from forebay.rules.settlement import Ending, Move, after


@dataclass(slots=True)
class Unit:
    """A unit in memory. `touched` has what steps changed since it was read, as it was before (None: not there)."""

    job: Job | None
    tasks: dict[str, Task]
    touched: dict[str, Task | None] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    usage: list[tuple[str, int, Usage, float]] = field(default_factory=list)
    acted: dict[str, Acted] = field(default_factory=dict)
    deleted: bool = False

    @property
    def id(self) -> str:
        return self.job.id if self.job else next(iter(self.tasks))

    def put(self, task: Task) -> None:
        self.touched.setdefault(task.id, self.tasks.get(task.id))
        self.tasks[task.id] = task

    def note(self, event: Event, now: float) -> None:
        if self.job is None:
            return
        self.job = rollup.noted(self.job)
        self.events.append(replace(event, number=self.job.event_count, at=now))

    def holes(self) -> Sequence[Hole]:
        return [
            Hole(task.chunk_index, task.error_class, task.error_text, task.page_start, task.page_end)
            for task in self.tasks.values()
            if task.chunk_index is not None and task.status in {Status.FAILED, Status.CANCELED}
        ]


def create(new: NewTask | NewJob, now: float) -> Unit:
    if isinstance(new, NewTask):
        if new.role is not Role.LONE:
            raise BadInput(f"A {new.role} task is submitted with its job.", remedy="Submit a NewJob.")
        unit = Unit(None, {})
        unit.put(new_task(new, None, now))
        return unit
    unit = Unit(new_job(new, now), {})
    add(unit, new.tasks, now)
    unit.note(created(new), now)
    return unit


def new_job(new: NewJob, now: float) -> Job:
    """The job before its tasks are counted."""
    return Job(
        id=new.id,
        pipeline=new.pipeline,
        tenant=new.tenant,
        status=Status.PENDING,
        generation=1,
        created_at=now,
        document=new.document,
        label=new.label,
        idempotency_key=new.idempotency_key,
        payload_hash=new.payload_hash,
        tags=new.tags,
        allow_holes=new.allow_holes,
        merge_json=rollup.merge_template(new.merge),
        callback_json=None if new.callback is None else new.callback.to_json(),
    )


def created(new: NewJob) -> Event:
    chunks = sum(task.role is Role.CHUNK for task in new.tasks)
    return Event(name="job_created", fields={"chunks": chunks})


def new_task(new: NewTask, job: Job | None, now: float) -> Task:
    available_at = max(now + new.delay_s, new.available_at or 0.0)
    # By position: of a bulk each is made here, and names cost as much as the rest.
    return Task(
        new.id,
        new.kind,
        new.lane,
        new.tenant,
        Status.PENDING,
        new.role,
        job.id if job else None,
        new.chunk_index,
        job.generation if job else 1,
        new.priority,
        flow_of(new.fairness_key, new.tenant, job.id if job else None),
        None,
        new.tags,
        new.idempotency_key,
        new.payload_hash,
        new.payload_blob,
        new.timeout_s,
        new.deadline_at,
        new.max_retries,
        new.max_reschedules,
        now,
        available_at,
        WaitReason.SCHEDULED if available_at > now else None,
        page_start=new.page_start,
        page_end=new.page_end,
        payload_json=new.payload_json,
    )


def add(unit: Unit, tasks: Sequence[NewTask], now: float) -> None:
    """Put new tasks into a job; one that is there already stays as it is."""
    roles = []
    for new in tasks:
        if new.id not in unit.tasks:
            unit.put(new_task(new, unit.job, now))
            roles.append(new.role)
    if unit.job is not None:
        unit.job = rollup.joined(unit.job, roles)


def claim(unit: Unit, task: Task, *, session_id: str, n: int, grace_s: float, now: float) -> Task:
    claimed = task._replace(
        status=after(Move.CLAIM, task.status),
        claim_count=task.claim_count + 1,
        session_id=session_id,
        exchange_n=n,
        claimed_at=now,
        attempt_deadline_at=now + task.timeout_s + grace_s,
        wait_reason=None,
    )
    unit.put(claimed)
    _count(unit, task.role, task.status, claimed.status)
    if unit.job and unit.job.status is Status.PENDING:
        unit.job = rollup.started(unit.job, now)
        unit.note(Event(name="job_running"), now)
    return claimed


def end(unit: Unit, task: Task, ending: Ending, *, worker: str, now: float, settle: Settle | None = None) -> None:
    """End the attempt of a running task, and do to its job what follows from it."""
    ended = task._replace(
        status=ending.status,
        wait_reason=ending.wait_reason,
        retry_count=ending.retry_count,
        reschedule_count=ending.reschedule_count,
        lost_count=ending.lost_count,
        attempt_count=task.attempt_count + ending.counted,
        available_at=ending.available_at,
        tag=task.tag if ending.keeps_place else None,
        finished_at=ending.finished_at,
        error_class=ending.error_class,
        error_text=ending.error_text,
        result_blob=ending.result_blob,
        result_json=ending.result_json,
    )
    unit.put(ended)
    if ending.counted:
        unit.attempts.append(attempt(task, ending, worker=worker, now=now))
    if settle is not None:
        unit.usage.extend((task.id, settle.token, used, now) for used in settle.usage)
        for event in settle.events:
            unit.note(event, now)
        add(unit, follow_ups(settle, ending, unit.job), now)
    roll(unit, task.status, ended, now)


def attempt(task: Task, ending: Ending, *, worker: str, now: float) -> Attempt:
    return Attempt(
        task_id=task.id,
        token=task.claim_count,
        attempt=task.attempt_count + 1,
        session_id=task.session_id or "",
        worker=worker,
        claimed_at=task.claimed_at or now,
        ended_at=now,
        outcome=ending.outcome,
        status=ending.status,
        retry_count=ending.retry_count,
        reschedule_count=ending.reschedule_count,
        settled=ending.settled,
        available_at=ending.available_at if ending.status is Status.PENDING else None,
        error_class=ending.error_class,
        error_text=ending.error_text,
        traceback=ending.traceback,
    )


def follow_ups(settle: Settle, ending: Ending, job: Job | None) -> list[NewTask]:
    """The tasks that a settle brings along: none when a cancel overtook it, no chunks when the job merges or ends."""
    if job is None or ending.status is not settle.status:
        return []
    takes_chunks = job.cancel_requested_at is None and job.merge_id is None and not job.status.terminal
    return [
        member(new, job.id, tenant=job.tenant) for new in settle.follow_ups if new.role is Role.FOLLOW or takes_chunks
    ]


def roll(unit: Unit, before: Status, task: Task, now: float) -> None:
    """Bring the job up to date after one of its tasks changed its status."""
    if unit.job is None:
        return
    _count(unit, task.role, before, task.status)
    if not task.status.terminal:
        return
    if task.role is Role.CHUNK:
        chunk = (task.status, task.chunk_index, task.error_class)
        unit.note(chunk_event(*chunk, pages=(task.page_start, task.page_end)), now)
        add(unit, announcing.chunk_ended(unit.job, *chunk, now=now), now)
    ended = Ended(task.id, task.role, task.status, task.generation, task.error_class, task.error_text)
    change = rollup.effect(unit.job, [ended], unit.holes, now)
    unit.job = change.job
    add(unit, change.tasks, now)
    for event in change.events:
        unit.note(event, now)


def chunk_event(
    status: Status, index: int | None, error_class: str | None, *, pages: tuple[int | None, int | None]
) -> Event:
    error = {} if error_class is None else {"error_class": error_class}
    failed = status is Status.FAILED
    place = {"page_start": pages[0], "page_end": pages[1]} if failed and pages[0] is not None else {}
    return Event(
        name="chunk_permanently_failed" if failed else f"chunk_{status}", fields={"index": index, **place, **error}
    )


def _count(unit: Unit, role: Role, before: Status | None, now_is: Status) -> None:
    if unit.job is not None:
        unit.job = rollup.counted(unit.job, rollup.tally(role, before, now_is))
