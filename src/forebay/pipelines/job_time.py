"""Ends what a job does when the job has run as long as it may.

What counts is the time in which anything of the job ran, once: of tasks that have ended their last attempts, without
what they waited in hand or for slots, and of the task that asks what it has run itself. Others that still run count
for themselves. A task that has waited tells how long it ran by an entry in the ledger, under a key that follows from
its id and token.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from forebay.engine.context import Context
from forebay.engine.signals import Permanent
from forebay.errors import StoreError
from forebay.model import payload as json_text
from forebay.model.exchange import Remembered
from forebay.model.query import Query
from forebay.model.task import Task
from forebay.pipelines.ground import Ground
from forebay.pipelines.listing import pages
from forebay.rules import running_time
from forebay.rules.chunks import ran_key
from forebay.rules.rollup import JOB_TIMEOUT
from forebay.rules.verdict import ErrorClass

T = TypeVar("T")
_FIRST_LOOK_S = 0.1
_LOOK_S = 2.0
_WORTH_TELLING_S = 0.05


async def within(ground: Ground, ctx: Context, step: Coroutine[Any, Any, T]) -> T:
    """What the step returns; when the job's time is over it is canceled, and the children that work for it killed."""
    running: asyncio.Future[T] | None = None
    look_s = _FIRST_LOOK_S
    try:
        while running is None or not running.done():
            left_s = await asyncio.to_thread(_left_s, ground, ctx)
            if left_s <= 0:
                raise Permanent(JOB_TIMEOUT, error_class=ErrorClass.TIMEOUT)
            running = running or asyncio.ensure_future(step)
            # While it waits, little may be left for long: to look is to read the whole job.
            await asyncio.wait({running}, timeout=max(left_s, look_s))
            look_s = min(_LOOK_S, 2 * look_s)
        return running.result()
    finally:
        if running is None:
            step.close()
        elif not running.done():
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        if ctx.waited_s >= _WORTH_TELLING_S:
            await asyncio.shield(asyncio.to_thread(_tell, ground, ctx, ctx.ran_s))


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
    spans = [(now - max(0.0, ctx.ran_s), now)]
    for tasks in pages(ground.ledger(), Query(job_id=job.id)):
        others = [task for task in tasks if task.id != ctx.task_id]
        spans += running_time.ended(others, _told_s(ground, job.tenant, others), generation=job.generation)
    return most_s - running_time.ran_s(spans)


def _told_s(ground: Ground, tenant: str, tasks: Sequence[Task]) -> dict[str, float]:
    """How long those ran that have told it, by their ids."""
    keys = {ran_key(task.id, task.claim_count): task.id for task in tasks if task.finished_at is not None}
    found = ground.ledger().recall(tenant, list(keys)) if keys else []
    return {keys[each.key]: float(each.result_json or 0) for each in found}


def _tell(ground: Ground, ctx: Context, ran_s: float) -> None:
    """Blocking. Who cannot tell it counts as if it had never waited."""
    with suppress(StoreError):
        job = ground.ledger().get_job(ctx.job_id or "")
        if job is not None and job.document is not None:
            entry = Remembered(
                tenant=job.tenant,
                key=ran_key(ctx.task_id, ctx.token),
                document=job.document,
                result_json=json_text.encode(max(0.0, ran_s)),
            )
            ground.ledger().remember([entry])
