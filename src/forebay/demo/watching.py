"""Looks how the documents get on: what is done, what is waited for and why, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from forebay.app.forebay import Forebay
from forebay.model.job import Job
from forebay.model.query import Query
from forebay.model.task import Role, Status, Task

_CHUNKS: Final = 500
_REASONS_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`waits` is what Forebay itself says of the next call; `eta_s` is None where nobody can tell."""

    document_count: int
    done_count: int
    ended_count: int
    chunk_count: int
    chunk_done_count: int
    waits: str = ""
    eta_s: float | None = None


class Watch:
    """Of the jobs that were handed in, each with the pages that its document has."""

    def __init__(self, app: Forebay, jobs: Mapping[str, int], limits: list[str]) -> None:
        self._app = app
        self.jobs = jobs
        self._limits = limits
        self._ended: dict[str, Job] = {}
        self._began_at = time.monotonic()
        self._said_at = 0.0
        self._waits = ""
        self._eta_s: float | None = None

    def look(self) -> Progress:
        open_jobs = [job for job in map(self._job, self.jobs) if not job.status.terminal]
        if time.monotonic() - self._said_at >= _REASONS_S:
            self._said_at = time.monotonic()
            self._ask(open_jobs)
        jobs = [*open_jobs, *self._ended.values()]
        chunk_count = sum(job.chunk_count for job in jobs)
        done_count = chunk_count - sum(job.open_count for job in jobs)
        return Progress(
            document_count=len(jobs),
            done_count=sum(job.status is Status.COMPLETED for job in jobs),
            ended_count=len(self._ended),
            chunk_count=chunk_count,
            chunk_done_count=done_count,
            waits=self._waits,
            eta_s=self._left_s(chunk_count - done_count + sum(not job.chunk_count for job in open_jobs), done_count),
        )

    def _left_s(self, left_count: int, done_count: int) -> float | None:
        """The later of what Forebay foretells for the chunks it knows, and the pace up to now for all of them."""
        if not left_count or not done_count:
            return None if not left_count else self._eta_s
        paced_s = left_count * (time.monotonic() - self._began_at) / done_count
        return max(paced_s, self._eta_s or 0.0)

    def whole(self) -> int:
        """How many documents came out with all of their pages."""
        return sum(self._is_whole(job) for job in map(self._job, self.jobs))

    def chunks(self) -> list[Task]:
        asked = [Query(job_id=job, role=Role.CHUNK, size=_CHUNKS) for job in self.jobs]
        return [task for each in asked for task in self._app.ledger.list_tasks(each).items]

    def _job(self, identifier: str) -> Job:
        if identifier in self._ended:
            return self._ended[identifier]
        job = self._app.ledger.get_job(identifier)
        if job is None:
            raise LookupError(identifier)
        if job.status.terminal:
            self._ended[identifier] = job
        return job

    def _is_whole(self, job: Job) -> bool:
        merge = self._app.ledger.get(job.merge_id) if job.merge_id else None
        said = merge.result if merge is not None and job.status is Status.COMPLETED else None
        return isinstance(said, dict) and said["page_count"] == self.jobs[job.id] and not said["holes"]

    def _ask(self, open_jobs: list[Job]) -> None:
        look = self._app.look()
        standings = [look.standing(job) for job in open_jobs]
        self._eta_s = max((each.end_eta_s for each in standings if each.end_eta_s is not None), default=None)
        held = [standing for limit in self._limits for _, standing in look.lanes(limit)]
        self._waits = "; ".join(each.reasons[0].text for each in held if each.wait_reason is not None)
