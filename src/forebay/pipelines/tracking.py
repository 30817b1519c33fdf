"""Tells how far the job of a document is: pages read, missing and used again, and what it cost with its articles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from forebay.model.job import Job, member_id
from forebay.model.query import Query
from forebay.model.task import Attempt, Role, Status, Task
from forebay.pipelines.listing import whole
from forebay.pipelines.part import Part
from forebay.pipelines.pipeline import NAMES
from forebay.rules.budgets import is_held_back
from forebay.rules.settlement import Move
from forebay.stores.base import Ledger

_UNDONE = {Status.FAILED, Status.CANCELED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """`page_count` is None until the document was split.

    A call is an attempt at a chunk, whatever came of it, unless a budget held it back. Retries are counted over all
    generations of the job: those of the chunks themselves, and those that people asked for.
    """

    page_count: int | None
    done_page_count: int = 0
    reused_page_count: int = 0
    missing_page_count: int = 0
    call_count: int = 0
    retry_count: int = 0
    reschedule_count: int = 0
    requested_retry_count: int = 0


class Again(NamedTuple):
    """How often chunks ran again, and why."""

    retries: int = 0
    reschedules: int = 0
    requested: int = 0

    def plus(self, task: Task, attempts: Sequence[Attempt]) -> Again:
        """Add a chunk; one that was reopened has its attempts counted, since its row counts from the last time on."""
        if task.generation == 1:
            return Again(self.retries + task.retry_count, self.reschedules + task.reschedule_count, self.requested)
        outcomes = Counter(attempt.outcome for attempt in attempts)
        undone = sum(attempt.status in _UNDONE for attempt in attempts) - (task.status in _UNDONE)
        return Again(
            self.retries + outcomes[Move.RETRY],
            self.reschedules + outcomes[Move.RESCHEDULE],
            self.requested + max(0, undone),
        )


def track(ledger: Ledger, job: Job) -> Track | None:
    """None for a job of another pipeline."""
    if job.pipeline not in NAMES:
        return None
    split = ledger.get(member_id(job.id, Role.SPLIT, 1))
    said = split.result if split else None
    if not isinstance(said, dict):
        return Track(page_count=None)
    done = int(said["pages"]) if said.get("converted") else 0  # type: ignore[arg-type]  # written by our own split
    reused = missing = calls = 0
    again = Again()
    for task in chunks(ledger, job.id):
        asked = task.payload
        if not isinstance(asked, dict) or "pages" not in asked:
            continue
        attempts = ledger.history(task.id) if task.reschedule_count or task.generation > 1 else []
        made = task.attempt_count - sum(is_held_back(attempt.error_text) for attempt in attempts)
        calls += made
        again = again.plus(task, attempts)
        header = task.result
        if "article" in asked:
            calls -= task.attempt_count if isinstance(header, dict) and header.get("reused") else 0
        elif task.status is Status.FAILED:
            missing += _size(task)
        elif isinstance(header, dict) and "page_start" in header:
            done += _size(task)
            if header.get("reused"):
                reused += _size(task)
                calls -= made
    return Track(
        page_count=int(said["pages"]),  # type: ignore[arg-type]  # written by our own split
        done_page_count=done,
        reused_page_count=reused,
        missing_page_count=missing,
        call_count=calls,
        retry_count=again.retries,
        reschedule_count=again.reschedules,
        requested_retry_count=again.requested,
    )


def chunks(ledger: Ledger, job_id: str) -> Iterator[Task]:
    """All chunks of a job, with their payloads and results, in the order they were made."""
    return whole(ledger, Query(job_id=job_id, role=Role.CHUNK))


def _size(task: Task) -> int:
    payload = task.payload
    return Part.of(payload).size if isinstance(payload, dict) else 0
