"""Judges every task: accepted, ended once, counted right, and as its workers were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from chaos import judge_tasks
from chaos.engine.evidence import Evidence
from chaos.evidence import Attempt, Task
from chaos.judge_tasks import MAX_LOST, TERMINAL

_SETTLED_AS = {
    "task_completed": "completed",
    "task_retried": "retried",
    "task_rescheduled": "rescheduled",
    "task_failed": "failed",
    "task_canceled": "canceled",
}


def submissions(evidence: Evidence) -> Iterator[str]:
    """T1: what was accepted is there under one id; nothing is there that nobody asked for."""
    ids: dict[str, str] = {}
    chunks = {record["key"]: record["chunks"] for record in evidence.submitted if record["e"] == "asked"}
    for record in evidence.submitted:
        if record["e"] != "told":
            continue
        key, unit_id = record["key"], record["id"]
        if ids.setdefault(key, unit_id) != unit_id:
            yield f"T1 {key}: accepted as {ids[key]} and as {unit_id}"
        job = evidence.rows.jobs.get(unit_id)
        if unit_id not in evidence.rows.tasks and job is None:
            yield f"T1 {unit_id} ({key}): accepted, and gone"
        elif job is not None and job.chunk_count not in {chunks[key], 0}:
            yield f"T1 job {unit_id} ({key}): has {job.chunk_count} chunks, {chunks[key]} were submitted"
        elif job is not None and job.status == "completed" and job.chunk_count != chunks[key]:
            yield f"T1 job {unit_id} ({key}): completed without its chunks"
    units = {task.id for task in evidence.rows.tasks.values() if task.job_id is None} | set(evidence.rows.jobs)
    for unit_id in units - set(ids.values()):
        yield f"T1 {unit_id}: nobody was told of it"
    for text in evidence.acted:
        yield f"T1 somebody acted on the ledger: {text}"


def tasks(evidence: Evidence) -> Iterator[str]:
    handed_back = Counter(record["task_id"] for record in evidence.told("task_handed_back"))
    for task in evidence.rows.tasks.values():
        history = evidence.rows.history[task.id]
        if task.status not in TERMINAL or task.finished_at is None:
            yield f"T1 task {task.id} ({task.kind}): is {task.status} at the end, finished at {task.finished_at}"
        yield from judge_tasks.order(task, history)
        yield from _ends(task, history)
        yield from _counts(task, history, handed_back[task.id])


def _ends(task: Task, history: list[Attempt]) -> Iterator[str]:
    """T1, T2: one end, and it is the last thing that happened."""
    ends = [one for one in history if one.status in TERMINAL]
    if len(ends) > 1:
        yield f"T2 task {task.id}: ended {len(ends)} times"
    if task.status in TERMINAL and (not ends or ends[-1] is not history[-1] or ends[-1].status != task.status):
        yield f"T1 task {task.id}: is {task.status}, its history says {[one.outcome for one in history]}"


def _counts(task: Task, history: list[Attempt], handed_back: int) -> Iterator[str]:
    """T4: a kill costs no retry; every token is an attempt, or was handed back before it began."""
    outcomes = Counter(one.outcome for one in history)
    for outcome, count in (
        ("retried", task.retry_count),
        ("rescheduled", task.reschedule_count),
        ("lost", task.lost_count),
    ):
        if outcomes[outcome] != count:
            yield f"T4 task {task.id}: {outcome} {outcomes[outcome]} times by its history, {count} by its row"
    if task.retry_count > task.max_retries:
        yield f"T4 task {task.id}: {task.retry_count} retries of {task.max_retries}"
    if task.lost_count > MAX_LOST:
        yield f"T4 task {task.id}: lost {task.lost_count} times"
    if [one.attempt for one in history] != list(range(1, task.attempt_count + 1)):
        yield f"T4 task {task.id}: attempts {[one.attempt for one in history]}, counted {task.attempt_count}"
    if task.claim_count - len(history) > handed_back:
        yield f"T4 task {task.id}: {task.claim_count} tokens, {len(history)} attempts, {handed_back} handed back"


def _recorded(row: Attempt, outcome: str, error_class: str | None) -> bool:
    """Of a task that ends its workers nobody settles the last attempt: who finds it lost once too often tells of it."""
    if error_class == "poison":
        return (row.outcome, row.status) == ("lost", outcome)
    return bool(row.settled) and row.outcome == outcome


def acknowledged(evidence: Evidence) -> Iterator[str]:
    """T3, T6: what a worker was told to be recorded is recorded; what was fenced is not."""
    rows = {(task_id, one.attempt): one for task_id, history in evidence.rows.history.items() for one in history}
    for event, outcome in _SETTLED_AS.items():
        for record in evidence.told(event):
            row = rows.get((record["task_id"], record["attempt"]))
            if row is None or not _recorded(row, outcome, record.get("error_class")):
                was = "is not there" if row is None else f"was {row.outcome}"
                yield f"T3 task {record['task_id']}: acknowledged as {outcome}, attempt {record['attempt']} {was}"
    for record in evidence.told("task_fenced"):
        attempt = evidence.attempts.get((record["task_id"], record["token"]))
        if attempt is not None and attempt.settled:
            yield f"T6 task {record['task_id']}: fenced under token {record['token']}, and written all the same"
