"""The first step of a document: look into it, cut it, and bring its chunks along."""

from __future__ import annotations

import asyncio

from forebay.engine.context import Context
from forebay.engine.signals import Permanent
from forebay.engine.submission import Options
from forebay.model import payload as json_text
from forebay.model.outcome import Completed
from forebay.pipelines import sources
from forebay.pipelines.cutting import Order, Terms, cut
from forebay.pipelines.ground import Ground
from forebay.rules.verdict import ErrorClass


def carried(ctx: Context) -> Options:
    """What the chunks of a job have in common with the task that brings them."""
    options = Options(priority=ctx.priority, tenant=ctx.tenant, tags=ctx.tags)
    if ctx.deadline_at is not None:
        options["deadline_at"] = ctx.deadline_at
    return options


async def split(ground: Ground, ctx: Context, order: Order) -> Completed:
    """The document's bytes lie beside the task."""
    if ctx.blob is None:
        raise Permanent("The split was submitted without a document.", error_class=ErrorClass.BUG)
    processor = ground.processors[order.processor]
    async with sources.document(ground, ctx.blob) as file:
        strict = not await asyncio.to_thread(may_have_holes, ground, ctx)
        terms = Terms(tenant=ctx.tenant, options=carried(ctx), max_pages=processor.max_pages, strict=strict)
        made = await cut(ground, file, order, terms)
    return Completed(result_json=json_text.encode(made.told), follow_ups=made.tasks)


def may_have_holes(ground: Ground, ctx: Context) -> bool:
    job = ground.ledger().get_job(ctx.job_id or "")
    return job is not None and job.allow_holes
