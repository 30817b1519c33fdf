"""A ledger's promises once more, in the simplest words: what each step must answer and leave behind.

It shares no code with the rules and the stores that it judges. It takes from the ledger which tasks were claimed and
rescued, since the order among equals is not promised, and complains if that choice breaks a promise. The same holds
for callbacks, whose names follow from the events that they report: the model says for which events there must be one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from forebay.clock import Clock
from forebay.model.exchange import Hold, Release, Session, Settle, Want
from forebay.model.job import NewJob, member, member_id
from forebay.model.names import kind_of
from forebay.model.task import NewTask, Role, Status, Task

POISON = 5
HOPELESS = ("invalid_pdf", "poison")


class Past(NamedTuple):
    """An attempt that ended; `own` if by a settle of its holder, so that a repeat of that is answered alike."""

    token: int
    outcome: str
    status: Status
    own: bool


@dataclass
class Row:
    """A task. While it runs, `holder` is the session and `n` the exchange that claimed it."""

    new: NewTask
    unit: str
    generation: int
    available_at: float
    status: Status = Status.PENDING
    token: int = 0
    retries: int = 0
    requested: int = 0
    error: str | None = None
    reschedules: int = 0
    lost: int = 0
    holder: str | None = None
    n: int = 0
    overdue_at: float = 0.0
    asked_to_end: bool = False
    finished_at: float | None = None
    result_blob: str | None = None
    past: list[Past] = field(default_factory=list)

    @property
    def open(self) -> bool:
        return not self.status.terminal

    def holds(self, token: int) -> bool:
        return self.status is Status.RUNNING and self.token == token

    def settled(self, token: int, *outcomes: str) -> bool:
        """Whether the holder itself ended that attempt; with outcomes: as one of these."""
        return any(
            past.token == token and past.own and past.outcome in (outcomes or {past.outcome}) for past in self.past
        )


@dataclass
class Group:
    """A job; its tasks are the rows of its unit."""

    new: NewJob
    generation: int = 1
    status: Status = Status.PENDING
    asked_to_end: bool = False
    finished_at: float | None = None


@dataclass
class Member:
    """A session."""

    lease_s: float
    expires_at: float
    n: int = 0
    ended: bool = False


class Rest(NamedTuple):
    """A pause of a lane."""

    since: float
    until: float | None
    note: str


class Model:
    """What a ledger must hold after what workers did; `model_actions` adds what people ask for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.tasks: dict[str, Row] = {}
        self.jobs: dict[str, Group] = {}
        self.sessions: dict[str, Member] = {}
        self.used: Counter[tuple[str, str]] = Counter()
        self.hashes: dict[str, str | None] = {}
        self.tokens: dict[str, int] = {}
        self.pauses: dict[str, Rest] = {}
        self.to_tell: list[tuple[str, str]] = []

    @property
    def now(self) -> float:
        return self._clock.now()

    def submit(self, new: NewTask | NewJob) -> str:
        if new.id in self.hashes:
            return "existing" if self.hashes[new.id] == new.payload_hash else "conflict"
        self.hashes[new.id] = new.payload_hash
        if isinstance(new, NewJob):
            self.jobs[new.id] = Group(new)
        for task in new.tasks if isinstance(new, NewJob) else [new]:
            self._add(task, new.id)
        return "created"

    def _add(self, new: NewTask, unit: str, requested: int = 0) -> None:
        """One that is there already stays as it is."""
        generation = self.jobs[unit].generation if unit in self.jobs else 1
        due = max(self.now + new.delay_s, new.available_at or 0.0)
        row = Row(new, unit, generation, due, token=self.tokens.get(new.id, 0), requested=requested)
        self.tasks.setdefault(new.id, row)

    def members(self, job_id: str) -> list[Row]:
        return [row for row in self.tasks.values() if row.unit == job_id]

    def open_session(self, session: Session) -> None:
        self.sessions.setdefault(session.id, Member(session.lease_s, self.now + session.lease_s))

    def alive(self, session_id: str) -> bool:
        return session_id in self.sessions and not self.sessions[session_id].ended

    def renew(self, session_id: str, holds: Sequence[Hold]) -> set[str] | None:
        """The tasks of the session that are to end, or None if it has ended."""
        if not self.alive(session_id):
            return None
        session = self.sessions[session_id]
        session.expires_at = self.now + session.lease_s
        for hold in holds:
            if row := self._held(hold.task_id, hold.token):
                row.overdue_at = self.now + hold.hold_s
        return {row.new.id for row in self.held_by(session_id) if row.asked_to_end}

    def held_by(self, session_id: str, n: int | None = None) -> list[Row]:
        running = [row for row in self.tasks.values() if row.status is Status.RUNNING]
        return [row for row in running if row.holder == session_id and n in {None, row.n}]

    def close_session(self, session_id: str) -> None:
        if session_id in self.sessions:
            self.sessions[session_id].ended = True
            for row in self.held_by(session_id):
                self.release(Release(row.new.id, row.token, started=True))

    def _held(self, task_id: str, token: int) -> Row | None:
        row = self.tasks.get(task_id)
        return row if row and row.holds(token) else None

    def settle(self, settle: Settle) -> bool:
        """Whether it is fenced; a repeat of one that counted is not, and changes nothing.

        A cancel may have overruled it the first time, so that any outcome repeats that.
        """
        row = self.tasks.get(settle.task_id)
        if row is None:
            return True
        if not row.holds(settle.token):
            return not row.settled(settle.token, settle.outcome, "canceled")
        for used in settle.usage:
            self.used[used.meter, used.unit] += round(used.amount)
        goes_on = settle.status is Status.PENDING or any(task.role is Role.CHUNK for task in settle.follow_ups)
        if row.asked_to_end and goes_on:
            self._end(row, Status.CANCELED, "canceled", own=True)
            return False
        row.retries, row.reschedules, row.lost = settle.retry_count, settle.reschedule_count, settle.lost_count
        row.result_blob = settle.result_blob
        row.error = settle.error_class
        if settle.status is Status.PENDING:
            row.available_at = max(self.now + settle.delay_s, settle.available_at or 0.0)
        if row.unit in self.jobs:
            for new in settle.follow_ups:
                self._add(member(new, row.unit, tenant=new.tenant), row.unit)
        self._end(row, settle.status, settle.outcome, own=True)
        return False

    def release(self, release: Release) -> None:
        row = self._held(release.task_id, release.token)
        if row and row.asked_to_end:
            self._end(row, Status.CANCELED, "canceled")
        elif row:
            self._end(row, Status.PENDING, "released", counted=release.started)

    def lost(self) -> set[str]:
        """End sessions that ran out, and name the tasks that a rescue may take."""
        for session in self.sessions.values():
            session.ended |= session.expires_at <= self.now
        running = [row for row in self.tasks.values() if row.status is Status.RUNNING]
        return {r.new.id for r in running if not self.alive(r.holder or "") or r.overdue_at <= self.now}

    def rescue(self, task_id: str) -> None:
        row = self.tasks[task_id]
        if row.asked_to_end:
            self._end(row, Status.CANCELED, "canceled")
            return
        row.lost += 1
        row.error = "poison" if row.lost == POISON else None
        self._end(row, Status.FAILED if row.lost == POISON else Status.PENDING, "lost")

    def _end(self, row: Row, status: Status, outcome: str, *, own: bool = False, counted: bool = True) -> None:
        if counted:
            row.past.append(Past(row.token, outcome, status, own))
        self.become(row, status)

    def become(self, row: Row, status: Status) -> None:
        row.status = status
        row.holder = None
        row.finished_at = None if row.open else self.now
        job = self.jobs.get(row.unit)
        if job is None or row.open:
            return
        each = job.new.callback is not None and job.new.callback.each
        if each and row.new.role is Role.CHUNK and status is not Status.CANCELED:
            self.to_tell.append((row.unit, f"chunk.{status}"))
        merged = row.new.role is Role.MERGE and row.generation == job.generation
        if merged or (row.new.role is Role.SPLIT and status is not Status.COMPLETED):
            self._finish(job, status)
        elif row.new.role in {Role.CHUNK, Role.SPLIT} and not job.status.terminal:
            self._after_chunk(job)

    def _finish(self, job: Group, status: Status) -> None:
        job.status = status
        job.finished_at = self.now
        if job.new.callback is not None:
            self.to_tell.append((job.new.id, f"job.{status}"))

    def told(self, callbacks: Sequence[tuple[Task, str]]) -> Iterator[str]:
        """Take note of the callbacks that a step has left, each with what it tells; yields what is wrong with them."""
        if sorted((task.job_id or "", what) for task, what in callbacks) != sorted(self.to_tell):
            yield f"left were {callbacks}, to tell was {self.to_tell}"
        self.to_tell.clear()
        for task, _ in callbacks:
            new = NewTask(
                kind=task.kind,
                limit=task.lane.partition("@")[2],
                timeout_s=task.timeout_s,
                max_retries=task.max_retries,
                role=Role.FOLLOW,
                id=task.id,
            )
            self._add(new, task.job_id or "")

    def _after_chunk(self, job: Group) -> None:
        chunks = [row for row in self.members(job.new.id) if row.new.role is Role.CHUNK]
        holes = any(row.status is not Status.COMPLETED for row in chunks)
        some = any(row.status is Status.COMPLETED for row in chunks)
        if any(row.open for row in chunks):
            return
        if job.asked_to_end:
            self._finish(job, Status.CANCELED)
        elif holes and not (some and job.new.allow_holes):
            self._finish(job, Status.FAILED)
        elif job.new.merge is None:
            self._finish(job, Status.COMPLETED)
        else:
            self.merge(job)

    def merge(self, job: Group, requested: int = 0) -> None:
        if job.new.merge is not None:
            new = member(job.new.merge, job.new.id, tenant=job.new.tenant, generation=job.generation)
            self._add(new, job.new.id, requested)

    def merge_id(self, job_id: str) -> str | None:
        task_id = member_id(job_id, Role.MERGE, self.jobs[job_id].generation)
        return task_id if task_id in self.tasks else None

    def ready(self, kind: str, lane: str | None = None) -> list[Row]:
        """What may be claimed."""
        due = [row for row in self._due(kind) if lane in {None, row.new.lane}]
        return [row for row in due if row.new.lane not in self.resting()]

    def in_line(self, lane: str) -> list[Row]:
        """What may be claimed, or could be if the lane did not rest."""
        return [row for row in self._due(kind_of(lane)) if row.new.lane == lane]

    def resting(self) -> dict[str, Rest]:
        return {lane: rest for lane, rest in self.pauses.items() if rest.until is None or self.now < rest.until}

    def next_due(self, kinds: Sequence[str]) -> float | None:
        later = [row.available_at for kind in kinds for row in self._waiting(kind) if row.available_at > self.now]
        held_back = {row.new.lane for kind in kinds for row in self._due(kind)}
        ends = [rest.until for lane, rest in self.resting().items() if lane in held_back and rest.until is not None]
        return min(later + ends, default=None)

    def lanes(self) -> list[tuple[object, ...]]:
        resting = self.resting()
        rows = [row for row in self.tasks.values() if row.open]
        shown: list[tuple[object, ...]] = []
        for name in sorted({row.new.lane for row in rows} | resting.keys()):
            own = [row for row in rows if row.new.lane == name]
            running = sum(row.status is Status.RUNNING for row in own)
            ready = len(self.in_line(name))
            counts = (ready, len(own) - running - ready, running)
            shown.append((name, kind_of(name), resting.get(name, (None, None, "")), counts))
        return shown

    def _due(self, kind: str) -> list[Row]:
        return [row for row in self._waiting(kind) if row.available_at <= self.now]

    def _waiting(self, kind: str) -> list[Row]:
        return [row for row in self.tasks.values() if row.status is Status.PENDING and row.new.kind == kind]

    def claim(self, session_id: str, n: int, want: Want, claims: Sequence[Task]) -> Iterator[str]:
        """Take note of what a want was given; yields what is wrong with it."""
        ready = self.ready(want.kind, want.lane)
        taken = [self.tasks[task.id] for task in claims if task.id in self.tasks]
        if len(taken) != len(claims) or any(row not in ready for row in taken):
            yield f"claimed {claims}, ready were {ready}"
        if len(taken) != min(want.count, len(ready)):
            yield f"{len(taken)} claimed, {want.count} wanted, {len(ready)} ready"
        left = [row.new.priority for row in ready if row not in taken]
        if left and taken and max(left) > min(row.new.priority for row in taken):
            yield f"priority {max(left)} was passed over"
        for row in taken:
            row.status, row.holder, row.n = Status.RUNNING, session_id, n
            row.token += 1
            row.overdue_at = self.now + row.new.timeout_s + want.grace_s
            job = self.jobs.get(row.unit)
            if job and job.status is Status.PENDING:
                job.status = Status.RUNNING
