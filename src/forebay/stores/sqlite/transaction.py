"""One write transaction: runs the named statements, and gathers what several steps add to the same jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from forebay.model.job import Event, Job
from forebay.model.task import Role, Status, Task
from forebay.rules import fairness, pausing, rollup
from forebay.rules.fairness import Line, Place
from forebay.rules.pausing import Pauses
from forebay.stores.sqlite import rows
from forebay.stores.sqlite.queries import sql

_STATEMENT_SIZE = 64 * 1024 * 1024  # of JSON in one argument; SQLite takes up to 1 GB
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Transaction:
    """What a step works with. `finish` writes the jobs and events that were gathered."""

    def __init__(self, db: apsw.Connection, now: float) -> None:
        self._db = db
        self.now = now
        self.woken = False
        self._jobs: dict[str, Job] = {}
        self._changed: dict[str, None] = {}
        self._events: list[list[Any]] = []

    def query(self, name: str, **arguments: object) -> list[Any]:
        """All rows that a statement answers with; lists are passed as JSON."""
        bound = {key: encode(value) if isinstance(value, list) else value for key, value in arguments.items()}
        return list(self._db.execute(sql(name), bound))

    def execute(self, statement: str, *arguments: apsw.SQLiteValue) -> list[Any]:
        return list(self._db.execute(statement, arguments))

    def changes(self) -> int:
        return self._db.changes()

    def pauses(self) -> Pauses:
        return pausing.in_force(map(rows.pause, self.query("pauses")), self.now)

    def load_jobs(self, ids: Iterable[str | None]) -> None:
        missing = sorted({name for name in ids if name is not None and name not in self._jobs})
        if missing:
            for row in self.query("jobs", ids=missing):
                self._jobs[row[0]] = rows.job(row)

    def job(self, job_id: str) -> Job | None:
        self.load_jobs([job_id])
        return self._jobs.get(job_id)

    def drop_job(self, job_id: str) -> None:
        self._jobs.pop(job_id, None)
        self._changed.pop(job_id, None)

    def put_job(self, job: Job) -> None:
        self._jobs[job.id] = job
        self._changed[job.id] = None

    def count(self, job: Job, role: Role, before: Status | None, after: Status) -> Job:
        counted = rollup.counted(job, rollup.tally(role, before, after))
        self.put_job(counted)
        return counted

    def note(self, job: Job, event: Event) -> Job:
        noted = rollup.noted(job)
        self.put_job(noted)
        self.add_event(noted.id, noted.event_count, event)
        return noted

    def add_event(self, job_id: str, number: int, event: Event) -> None:
        self._events.append([job_id, number, self.now, event.name, encode(dict(event.fields))])

    def finish(self) -> None:
        if self._changed:
            self.query("put_jobs", rows=[rows.job_values(self._jobs[job_id]) for job_id in self._changed])
        if self._events:
            self.query("add_events", rows=self._events)
        self._changed.clear()
        self._events.clear()

    def forget(self) -> None:
        """Drop what a step gathered before it failed, and what it read."""
        self._jobs.clear()
        self._changed.clear()
        self._events.clear()

    def add_tasks(self, tasks: Sequence[Task]) -> None:
        """Store new pending tasks; those that are due get their place in line at once."""
        if not tasks:
            return
        ((seq, buried),) = self.execute("SELECT coalesce(max(seq), 0), EXISTS (SELECT 1 FROM buried) FROM tasks")
        due = [task for task in tasks if task.available_at <= self.now]
        places = [Place(Line(task.kind, task.lane, task.priority), task.flow) for task in due]
        tag_of = dict(zip((task.id for task in due), self.tags(places), strict=True))
        # Where the tokens of tasks go on that were deleted and come back: a late worker may still hold an old one.
        tokens = dict(self.query("buried", ids=[task.id for task in tasks])) if buried else {}
        added, payloads, size = [], [], 0
        for seq, task in enumerate(tasks, seq + 1):  # noqa: B020 - numbering goes on from the last one
            added.append(_added_row(seq, task, tag_of.get(task.id), tokens.get(task.id, 0)))
            payloads.append([seq, task.payload_json])
            size += len(task.payload_json or "")
            if size > _STATEMENT_SIZE:
                self.query("add_payloads", rows=payloads)
                payloads, size = [], 0
        self.query("add_tasks", rows=added, now=self.now)
        self.query("add_payloads", rows=payloads)
        self.woken = True

    def tags(self, places: Sequence[Place]) -> list[int]:
        lines = [list(line) for line in {place.line for place in places}]
        flows = [[*line, flow] for line, flow in {place for place in places if place.flow is not None}]
        heads = {Line(*row[:3]): row[3] for row in self.query("heads", lines=lines) if row[3] is not None}
        tails = {
            (Line(*row[:3]), row[3]): row[4]
            for row in (self.query("tails", flows=flows) if flows else ())
            if row[4] is not None
        }
        return fairness.tags(places, heads, tails)


def encode(value: object) -> str:
    return _encode(value)


def _added_row(seq: int, task: Task, tag: int | None, token: int) -> list[Any]:
    return [
        seq,
        task.id,
        task.kind,
        task.lane,
        task.tenant,
        task.role,
        task.job_id,
        task.chunk_index,
        task.generation,
        task.priority,
        task.flow,
        tag,
        encode(task.tags) if task.tags else None,
        task.idempotency_key,
        task.payload_hash,
        task.payload_blob,
        task.timeout_s,
        task.deadline_at,
        task.max_retries,
        task.max_reschedules,
        task.available_at,
        task.wait_reason,
        task.retry_count,
        token,
    ]
