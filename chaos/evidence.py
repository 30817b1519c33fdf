"""Gathers what a run left behind: the journals of its processes, and the rows of the file, read by SQL of its own."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from chaos import journal


class Question(NamedTuple):
    """A call as its process saw it: `asked` once or, after lost answers, more often."""

    verb: str
    asked: list[journal.Record]
    told: list[journal.Record]
    dropped: list[journal.Record]

    @property
    def answers(self) -> list[journal.Record]:
        """All answers that were given, whether or not the process pretended to have lost them."""
        return self.dropped + self.told


class Task(NamedTuple):
    """A row of `tasks`, with its result."""

    seq: int
    id: str
    kind: str
    status: str
    role: str
    job_id: str | None
    chunk_index: int | None
    generation: int
    max_retries: int
    retry_count: int
    reschedule_count: int
    lost_count: int
    claim_count: int
    attempt_count: int
    created_at: float
    finished_at: float | None
    cancel_requested_at: float | None
    error_class: str | None
    result_blob: str | None
    result: str | None


class Attempt(NamedTuple):
    """A row of `history`."""

    task_seq: int
    token: int
    attempt: int
    session_id: str
    claimed_at: float
    ended_at: float
    outcome: str
    status: str
    settled: int


class Job(NamedTuple):
    """A row of `jobs`."""

    id: str
    status: str
    generation: int
    allow_holes: int
    chunk_count: int
    open_count: int
    running_count: int
    completed_count: int
    failed_count: int
    canceled_count: int
    event_count: int
    finished_at: float | None
    merge_id: str | None


@dataclass(slots=True)
class Evidence:
    """Everything that a judge may look at."""

    quick_check: list[str] = field(default_factory=list)
    tasks: dict[str, Task] = field(default_factory=dict)
    history: dict[str, list[Attempt]] = field(default_factory=lambda: defaultdict(list))
    jobs: dict[str, Job] = field(default_factory=dict)
    events: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    revived: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    questions: dict[str, Question] = field(default_factory=dict)
    errors: list[journal.Record] = field(default_factory=list)
    crashes: list[journal.Record] = field(default_factory=list)
    strikes: list[journal.Record] = field(default_factory=list)

    def of(self, verb: str) -> list[Question]:
        return [question for question in self.questions.values() if question.verb == verb]


def gather(file: Path, logs: Path) -> Evidence:
    """Read all of it; to be called when no process has the file open any more."""
    evidence = Evidence()
    for path in sorted(logs.glob("*.jsonl")):
        records = journal.read(path)
        if path.name == "hammer.jsonl":
            evidence.strikes = records
        else:
            _gather_journal(evidence, records)
    read_rows(evidence, file)
    return evidence


def _gather_journal(evidence: Evidence, records: list[journal.Record]) -> None:
    for record in records:
        event = record["e"]
        if event == "asked":
            call = record["c"]
            known = evidence.questions.setdefault(call, Question(record["verb"], [], [], []))
            known.asked.append(record)
        elif event == "told":
            evidence.questions[record["c"]].told.append(record)
        elif event == "dropped":
            evidence.questions[record["c"]].dropped.append(record)
        elif event == "error":
            evidence.errors.append(record)
        elif event == "crash":
            evidence.crashes.append(record)


def read_rows(evidence: Evidence, file: Path) -> None:
    db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        evidence.quick_check = [row[0] for row in db.execute("PRAGMA quick_check")]
        if evidence.quick_check != ["ok"]:
            return
        _read_tables(evidence, db)
    except apsw.Error as error:
        evidence.quick_check = [*evidence.quick_check, f"reading it failed: {error}"]
    finally:
        db.close()


def _read_tables(evidence: Evidence, db: apsw.Connection) -> None:
    results = dict(db.execute("SELECT task_seq, result FROM results"))
    names: dict[int, str] = {}
    for row in _rows(db, "tasks", Task._fields[:-1]):
        task = Task._make((*row, results.get(row[0])))
        names[task.seq] = task.id
        evidence.tasks[task.id] = task
    for row in _rows(db, "history", Attempt._fields, "ORDER BY task_seq, token"):
        evidence.history[names.get(row[0], f"row {row[0]}")].append(Attempt(*row))
    for row in _rows(db, "jobs", Job._fields):
        evidence.jobs[row[0]] = Job(*row)
    for job_id, number, name in _rows(db, "events", ("job_id", "number", "name"), "ORDER BY job_id, number"):
        evidence.events[job_id].append((number, name))
    for verb, answer in _rows(db, "audit", ("verb", "answer")):
        for target, outcome, _ in json.loads(answer):
            if verb in {"retry", "force"} and outcome == "done":
                evidence.revived[target] += 1


def _rows(db: apsw.Connection, table: str, columns: tuple[str, ...], order: str = "") -> list[Any]:
    return list(db.execute(f"SELECT {', '.join(columns)} FROM {table} {order}"))
