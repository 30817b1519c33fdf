"""Tells how far the job of a document is: pages read, missing and used again, and what it cost with its articles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from forebay.model.job import Job, member_id
from forebay.model.query import Query
from forebay.model.task import Role, Status, Task
from forebay.pipelines.listing import whole
from forebay.pipelines.part import Part
from forebay.pipelines.pipeline import NAMES
from forebay.rules.budgets import is_held_back
from forebay.stores.base import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """`page_count` is None until the document was split.

    A call is an attempt at a chunk, whatever came of it, unless a budget held it back.
    """

    page_count: int | None
    done_page_count: int = 0
    reused_page_count: int = 0
    missing_page_count: int = 0
    call_count: int = 0
    retry_count: int = 0
    reschedule_count: int = 0


def track(ledger: Ledger, job: Job) -> Track | None:
    """None for a job of another pipeline."""
    if job.pipeline not in NAMES:
        return None
    split = ledger.get(member_id(job.id, Role.SPLIT, 1))
    said = split.result if split else None
    if not isinstance(said, dict):
        return Track(page_count=None)
    done = int(said["pages"]) if said.get("converted") else 0  # type: ignore[arg-type]  # written by our own split
    reused = missing = calls = retries = reschedules = 0
    for task in chunks(ledger, job.id):
        asked = task.payload
        if not isinstance(asked, dict) or "pages" not in asked:
            continue
        made = task.attempt_count - _held_back_count(ledger, task)
        calls += made
        retries += task.retry_count
        reschedules += task.reschedule_count
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
        retry_count=retries,
        reschedule_count=reschedules,
    )


def chunks(ledger: Ledger, job_id: str) -> Iterator[Task]:
    """All chunks of a job, with their payloads and results, in the order they were made."""
    return whole(ledger, Query(job_id=job_id, role=Role.CHUNK))


def _held_back_count(ledger: Ledger, task: Task) -> int:
    """How many of its attempts a budget ended before they called anybody."""
    if not task.reschedule_count:
        return 0
    return sum(is_held_back(attempt.error_text) for attempt in ledger.history(task.id))


def _size(task: Task) -> int:
    payload = task.payload
    return Part.of(payload).size if isinstance(payload, dict) else 0
