"""Ends what a job does when the job has run as long as it may."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from forebay.engine.context import Context
from forebay.engine.signals import Permanent
from forebay.model.query import MAX_PAGE, Query
from forebay.model.task import Task
from forebay.pipelines.ground import Ground
from forebay.rules.running_time import ran_s
from forebay.rules.verdict import ErrorClass

OVER = "Job cancelled due to timeout"
T = TypeVar("T")


async def within(ground: Ground, ctx: Context, step: Coroutine[Any, Any, T]) -> T:
    """What the step returns; when the job's time is over it is canceled, and the children that work for it killed."""
    running = asyncio.ensure_future(step)
    try:
        while not running.done():
            left_s = await asyncio.to_thread(_left_s, ground, ctx)
            if left_s <= 0:
                raise Permanent(OVER, error_class=ErrorClass.TIMEOUT)
            await asyncio.wait({running}, timeout=left_s)
        return running.result()
    finally:
        if not running.done():
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def _left_s(ground: Ground, ctx: Context) -> float:
    """Blocking. By the wall clock as long as that will do: what has not been there so long has not run so long."""
    job = ground.ledger().get_job(ctx.job_id or "")
    most_s = ground.job_timeout_s()
    if job is None:
        return most_s
    now = time.time()
    by_clock_s = most_s - (now - (job.started_at or now))
    if by_clock_s > 0:
        return by_clock_s
    others = (task for task in _tasks(ground, job.id) if task.id != ctx.task_id)
    return most_s - ran_s(others, generation=job.generation, now=now) - ctx.ran_s


def _tasks(ground: Ground, job_id: str) -> Iterator[Task]:
    after: str | None = None
    while True:
        page = ground.ledger().list_tasks(Query(job_id=job_id, after=after, size=MAX_PAGE))
        yield from page.items
        after = page.next
        if after is None:
            return
