"""Lays out tasks and jobs for people: as rows of a table, and one alone."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from forebay.app.plain import plain, plain_open, plain_row, remedy
from forebay.cli import output
from forebay.cli.cells import beside, cut, short_ids, when
from forebay.cli.options import Reading
from forebay.cli.output import json_text
from forebay.cli.standings import outlook_pairs, waits_cell
from forebay.model.job import Job
from forebay.model.payload import Json
from forebay.model.task import Status, Task
from forebay.rules import rollup
from forebay.rules.settlement import MAX_REQUESTED_RETRIES
from forebay.rules.standing import Standing

if TYPE_CHECKING:
    from forebay.app.explain import Explainer
    from forebay.pipelines.tracking import Track

TASK_COLUMNS = ("id", "kind", "pages", "status", "waits", "retries", "created", "error")
JOB_COLUMNS = ("id", "pipeline", "status", "progress", "failed", "created", "label", "error")
_SHOWN = 2000


def show(found: Task | Job, standing: Standing, common: Reading, track: Track | None = None) -> None:
    """`track` is how far a document's job is, page by page."""
    now = time.time()
    if common.output != "table":
        pages = {} if track is None else {"pages": plain(track)}
        output.write([plain_open(found, standing) | pages], common.output, one=True)
    elif isinstance(found, Job):
        output.pairs([*job_pairs(found, standing, now), *_track_pairs(track)])
    else:
        output.pairs(task_pairs(found, standing, now))


class TaskView:
    """Tasks of a list with why they wait, for people and for programs."""

    def __init__(self, look: Explainer) -> None:
        self._look = look

    def rows(self, tasks: Sequence[Task], now: float, *, short: bool) -> Iterator[tuple[str, ...]]:
        names = short_ids(task.id for task in tasks) if short else {}
        for task in tasks:
            yield (
                names.get(task.id, task.id),
                task.kind,
                _pages(task),
                task.status,
                waits_cell(self._look.glance(task), now),
                f"{task.retry_count}/{task.max_retries}",
                beside(task.created_at, now),
                _error(task, short=short),
            )

    def plain(self, task: Task) -> dict[str, Json]:
        return plain_row(task, self._look.glance(task))


def job_rows(jobs: Sequence[Job], now: float, *, short: bool) -> Iterator[tuple[str, ...]]:
    names = short_ids(job.id for job in jobs) if short else {}
    for job in jobs:
        yield (
            names.get(job.id, job.id),
            job.pipeline,
            job.status,
            f"{rollup.progress(job):.0%}",
            str(job.failed_count),
            beside(job.created_at, now),
            job.label or "",
            _error(job, short=short),
        )


def _pages(task: Task) -> str:
    return "" if task.page_start is None else f"{task.page_start}-{task.page_end}"


def _progress(task: Task) -> str:
    """Return what the running attempt reported, such as `42%, page 5 of 12`; a share below 1 is never 100%."""
    if task.progress is None:
        return ""
    note = f", {task.progress_note}" if task.progress_note else ""
    return f"{math.floor(round(100 * task.progress, 6))}%{note}"


def _error(found: Task | Job, *, short: bool) -> str:
    if found.error_class is None:
        return ""
    text = f"{found.error_class}: {found.error_text or ''}"
    return cut(text) if short else text


def task_pairs(task: Task, standing: Standing, now: float) -> list[tuple[str, str]]:
    large_payload = task.payload_blob is not None and task.payload_json == "null"
    return [
        ("id", task.id),
        ("kind", task.kind),
        ("status", task.status),
        ("progress", _progress(task)),
        *([] if task.status.terminal else outlook_pairs(standing, now)),
        ("retry_count", f"{task.retry_count} (max_retries: {task.max_retries})"),
        ("requested", f"{task.requested_retry_count} retries (max_requested_retries: {MAX_REQUESTED_RETRIES})"),
        ("reschedule_count", f"{task.reschedule_count} (max_reschedules: {_ceiling(task.max_reschedules)})"),
        ("lost_count", str(task.lost_count)),
        ("attempt_count", str(task.attempt_count)),
        ("priority", str(task.priority)),
        ("tenant", task.tenant),
        ("lane", task.lane),
        ("tags", ", ".join(task.tags)),
        ("idempotency_key", task.idempotency_key or ""),
        ("job_id", task.job_id or ""),
        ("role", "" if task.job_id is None else task.role),
        ("chunk_index", "" if task.chunk_index is None else str(task.chunk_index)),
        ("pages", _pages(task)),
        ("timeout_s", f"{task.timeout_s:g}"),
        ("created_at", when(task.created_at, now)),
        ("available_at", when(task.available_at, now)),
        ("deadline_at", when(task.deadline_at, now)),
        ("claimed_at", when(task.claimed_at, now) if task.status is Status.RUNNING else ""),
        ("finished_at", when(task.finished_at, now)),
        ("cancel_requested_at", when(task.cancel_requested_at, now)),
        *_error_pairs(task),
        ("payload", f"in the blob store, sha256 {task.payload_blob}" if large_payload else _shown(task.payload)),
        ("payload_blob", "" if large_payload else task.payload_blob or ""),
        ("result", _result(task)),
    ]


def _track_pairs(track: Track | None) -> list[tuple[str, str]]:
    if track is None or track.page_count is None:
        return []
    pages = (
        f"{track.page_count}: {track.done_page_count} read ({track.reused_page_count} of them used again), "
        f"{track.missing_page_count} missing"
    )
    spent = f"{track.call_count} calls, {track.done_page_count - track.reused_page_count} pages"
    again = (
        f"{track.retry_count} retries, {track.reschedule_count} reschedules, "
        f"{track.requested_retry_count} requested retries"
    )
    return [("pages", pages), ("spent", spent), ("again", again)]


def job_pairs(job: Job, standing: Standing, now: float) -> list[tuple[str, str]]:
    chunks = (
        f"{job.chunk_count}: {job.completed_count} completed, {job.failed_count} failed, "
        f"{job.canceled_count} canceled, {job.running_count} running, {job.pending_count} pending"
    )
    return [
        ("id", job.id),
        ("pipeline", job.pipeline),
        ("status", job.status),
        ("progress", f"{rollup.progress(job):.0%}"),
        ("chunks", chunks),
        *([] if job.status.terminal else outlook_pairs(standing, now)),
        ("label", job.label or ""),
        ("tenant", job.tenant),
        ("tags", ", ".join(job.tags)),
        ("idempotency_key", job.idempotency_key or ""),
        ("generation", str(job.generation)),
        ("created_at", when(job.created_at, now)),
        ("started_at", when(job.started_at, now)),
        ("finished_at", when(job.finished_at, now)),
        ("cancel_requested_at", when(job.cancel_requested_at, now)),
        ("merge_id", job.merge_id or ""),
        *_error_pairs(job),
    ]


def _error_pairs(found: Task | Job) -> list[tuple[str, str]]:
    return [
        ("error_class", found.error_class or ""),
        ("error_text", found.error_text or ""),
        ("remedy", remedy(found.error_class)),
    ]


def _ceiling(most: int | None) -> str:
    return "none" if most is None else str(most)


def _result(task: Task) -> str:
    if task.result_blob is not None:
        return f"in the blob store, sha256 {task.result_blob}: `forebay result {task.id}`"
    if task.result_json is None:
        return ""
    return _shown(task.result, elsewhere=f"`forebay result {task.id}`")


def _shown(value: Json, *, elsewhere: str = "`-o json` shows it") -> str:
    text = json_text(value)
    return text if len(text) <= _SHOWN else f"{len(text)} characters of JSON: {elsewhere}"
