"""Tells a task's history as the statuses that it had, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from forebay.cli import output
from forebay.cli.cells import clock_time
from forebay.ids import printable
from forebay.model.exchange import Audit
from forebay.model.task import Attempt, Status, Task
from forebay.rules.settlement import Move

_WIDTH = 72
RETRIES = {"retry": "asked by", "force": "forced by"}


class Version(NamedTuple):
    """One status that a task had, and how it came to it."""

    status: str
    how: str
    at: float | None
    traceback: str | None = None


def write_versions(made: Sequence[Version], *, tracebacks: bool) -> None:
    texts = [
        printable(f"Version {number}: {each.status}{f' ({each.how})' if each.how else ''}")
        for number, each in enumerate(made, 1)
    ]
    width = min(_WIDTH, max(map(len, texts)))
    for text, each in zip(texts, made, strict=True):
        output.line(f"{text:<{width}}  {clock_time(each.at)}" if each.at is not None else text)
        if tracebacks and each.traceback:
            output.lines(each.traceback)


def versions(task: Task, attempts: Sequence[Attempt], worker: str, requests: Sequence[Audit] = ()) -> Iterator[Version]:
    yield Version(Status.PENDING, "created", task.created_at)
    last: str = Status.PENDING
    ended_at = 0.0
    for attempt in attempts:
        if Status(last).terminal:
            yield _opened_again(last, ended_at, requests)
        yield Version(Status.RUNNING, f"claimed by {attempt.worker}", attempt.claimed_at)
        yield Version(attempt.status, _ending(attempt, task), attempt.ended_at, attempt.traceback)
        last, ended_at = attempt.status, attempt.ended_at
    if Status(last).terminal and task.status != last:
        yield _opened_again(last, ended_at, requests)
    if task.status is Status.RUNNING:
        yield Version(Status.RUNNING, f"claimed by {worker}" if worker else "claimed", task.claimed_at)
    elif task.status.terminal and task.status != last:
        yield Version(task.status, "" if task.status is Status.CANCELED else task.error_text or "", task.finished_at)


def _opened_again(last: str, ended_at: float, requests: Sequence[Audit]) -> Version:
    """Who it was and when, the audit trail knows; a task itself keeps no trace of it."""
    if last == Status.COMPLETED:
        return Version(Status.PENDING, "its result was lost", None)
    asked = next((line for line in requests if line.at >= ended_at), None)
    if asked is None:
        return Version(Status.PENDING, "to be run again", None)
    return Version(Status.PENDING, f"to be run again, {RETRIES[asked.verb]} {asked.who}", asked.at)


def _ending(attempt: Attempt, task: Task) -> str:
    error = f"{attempt.error_class}: {attempt.error_text}" if attempt.error_class else attempt.error_text or ""
    later = ""
    if attempt.available_at is not None and attempt.status is Status.PENDING:
        later = f", available_at: +{round(max(0.0, attempt.available_at - attempt.ended_at), 3):.12g}s"
    if attempt.outcome == Move.RESCHEDULE:
        return f"rescheduled{later}, count: {attempt.reschedule_count}{f', {error}' if error else ''}"
    if attempt.outcome == Move.RETRY:
        return f"retried{later}, retry {attempt.retry_count} of {task.max_retries}, {error}"
    if attempt.outcome in {Move.FAIL, Move.LOSE}:
        return error if attempt.outcome == attempt.status else f"{attempt.outcome}{f', {error}' if error else ''}"
    return "" if attempt.outcome == attempt.status else attempt.outcome
