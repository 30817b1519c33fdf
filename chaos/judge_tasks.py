"""Judges every task of a run: accepted, ended once, and every attempt accounted for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

from chaos.accounts import Accounts
from chaos.evidence import Attempt, Evidence, Task
from chaos.journal import Record

TERMINAL = {"completed", "failed", "canceled"}
MAX_LOST = 5
_ENDS_AS = {
    "completed": {"completed"},
    "retried": {"pending"},
    "rescheduled": {"pending"},
    "released": {"pending"},
    "lost": {"pending", "failed"},
    "failed": {"failed"},
    "canceled": {"canceled"},
}


def submissions(evidence: Evidence) -> Iterator[str]:
    """T1: what was accepted is there and has ended; nothing is there that nobody submitted."""
    asked: dict[str, int] = {}
    for question in evidence.of("submit"):
        for record in question.asked:
            asked.update((unit_id, chunks) for _, unit_id, chunks in record["items"])
        for record in question.answers:
            yield from _accepted(evidence, record)
    for job_id, job in evidence.jobs.items():
        if job.chunk_count != asked.get(job_id):
            yield f"T1 job {job_id}: has {job.chunk_count} chunks, {asked.get(job_id)} were submitted"
    for task in evidence.tasks.values():
        if task.job_id is None and task.id not in asked:
            yield f"T1 task {task.id}: nobody submitted it"
        if task.job_id is not None and task.job_id not in evidence.jobs:
            yield f"T1 task {task.id}: its job {task.job_id} is gone"
        if task.status not in TERMINAL or task.finished_at is None:
            yield f"T1 task {task.id}: is {task.status} at the end, finished at {task.finished_at}"


def _accepted(evidence: Evidence, record: Record) -> Iterator[str]:
    for unit_id, outcome in record["outcomes"]:
        if outcome not in {"created", "existing"}:
            yield f"T1 {unit_id}: its submission was answered with {outcome}"
        if unit_id not in evidence.tasks and unit_id not in evidence.jobs:
            yield f"T1 {unit_id}: accepted, and gone"


def histories(evidence: Evidence, accounts: Accounts) -> Iterator[str]:
    for task_id in evidence.history.keys() - evidence.tasks.keys():
        yield f"T1 {task_id}: has a history, but there is no such task"
    for task in evidence.tasks.values():
        history = evidence.history[task.id]
        yield from order(task, history)
        yield from _accounting(task, history, accounts, revived=_revived(evidence, task))
        yield from _end(task, history, revived=_revived(evidence, task))


def _revived(evidence: Evidence, task: Task) -> int:
    return evidence.revived[task.id] + (evidence.revived[task.job_id] if task.job_id else 0)


def order(task: Task, history: list[Attempt]) -> Iterator[str]:
    """T3: tokens rise, and an attempt begins only after the one before it has ended."""
    for before, after in pairwise(history):
        if before.token >= after.token:
            yield f"T3 task {task.id}: token {after.token} follows {before.token}"
        if before.ended_at > after.claimed_at:
            yield f"T3 task {task.id}: attempt {after.token} was claimed before attempt {before.token} ended"
    for one in history:
        if one.token > task.claim_count:
            yield f"T3 task {task.id}: token {one.token} has ended, but only {task.claim_count} were given"
        if one.status not in _ENDS_AS.get(one.outcome, set()):
            yield f"T3 task {task.id}: attempt {one.token} was {one.outcome} and left it {one.status}"


def _accounting(task: Task, history: list[Attempt], accounts: Accounts, *, revived: int) -> Iterator[str]:
    """T4: every token is accounted for, and retries, reschedules and losses are counted apart."""
    if [one.attempt for one in history] != list(range(1, task.attempt_count + 1)):
        yield f"T4 task {task.id}: attempts {[one.attempt for one in history]}, counted {task.attempt_count}"
    missing = set(range(1, task.claim_count + 1)) - {one.token for one in history}
    for token in sorted(missing):
        if (task.id, token) not in accounts.unstarted:
            yield f"T4 task {task.id}: token {token} was given, and has no history"
    if task.retry_count > task.max_retries:
        yield f"T4 task {task.id}: {task.retry_count} retries of {task.max_retries}"
    if task.lost_count > MAX_LOST:
        yield f"T4 task {task.id}: lost {task.lost_count} times"
    if revived:
        return
    for outcome, count in (
        ("retried", task.retry_count),
        ("rescheduled", task.reschedule_count),
        ("lost", task.lost_count),
    ):
        rows = sum(one.outcome == outcome for one in history)
        if rows != count:
            yield f"T4 task {task.id}: {outcome} {rows} times by its history, {count} by its row"


def _end(task: Task, history: list[Attempt], *, revived: int) -> Iterator[str]:
    """T1, T2: one end per generation, written by the last attempt, with that attempt's result."""
    ends = [one for one in history if one.status in TERMINAL]
    if len(ends) > 1 + revived:
        yield f"T2 task {task.id}: ended {len(ends)} times, revived {revived} times"
    if sum(one.status == "completed" for one in history) > 1:
        yield f"T2 task {task.id}: completed more than once"
    last = history[-1] if history else None
    if task.status == "canceled":
        if task.cancel_requested_at is None and (last is None or last.status != "canceled"):
            yield f"T1 task {task.id}: canceled, but nobody asked for it"
    elif last is None or last.status != task.status:
        yield f"T1 task {task.id}: is {task.status}, its last attempt left it {last.status if last else 'unclaimed'}"
    if (task.status == "completed") != (task.result is not None):
        yield f"T2 task {task.id}: is {task.status}, its result is {task.result}"
    elif task.result is not None and last is not None:
        made = json.loads(task.result)
        if (made["token"], made["session"]) != (last.token, last.session_id):
            yield f"T6 task {task.id}: completed under token {last.token}, its result was made under {made['token']}"
