"""The steps of pipelines whose chunks are pages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from forebay.engine.context import Context
from forebay.model.job import Job
from forebay.model.outcome import Outcome
from forebay.model.payload import Json
from forebay.pipelines import finishing, job_time, processing, sniffing, splitting, whole
from forebay.pipelines.cutting import Order
from forebay.pipelines.ground import Ground
from forebay.pipelines.pipeline import Merged, Paged, Step
from forebay.processors.base import Processor

STEP_TIMEOUT_S = 600.0
MERGE_TIMEOUT_S = 3600.0
_CPU_S = 20.0
_CPU_PAGE_S = 0.2


async def _split(ground: Ground, ctx: Context, payload: dict[str, Any]) -> Outcome:
    return await splitting.split(ground, ctx, Order.of(payload))


async def _merge(ground: Ground, ctx: Context, payload: dict[str, Any]) -> Outcome:
    return await finishing.merge(ground, ctx, Order.of(payload))


async def process(ground: Ground, ctx: Context, payload: dict[str, Any]) -> Outcome:
    step = processing.process(ground, ctx, payload)
    return await (job_time.within(ground, ctx, step) if payload.get("timed") else step)


async def _stored(ground: Ground, ctx: Context, payload: dict[str, Any]) -> Outcome:
    return await processing.stored(ground, ctx, payload)


def checked(_: Ground, processor: Processor, options: Mapping[str, Any]) -> dict[str, Json]:
    """They are all the processor's."""
    return processor.checked(options)


async def so_far(ground: Ground, job: Job) -> Merged:
    found = await asyncio.to_thread(whole.so_far, ground, job)
    return await ground.paged(found.order.processor).merged(ground, found)


STEPS: Mapping[str, Step] = {
    "split": Step(_split, STEP_TIMEOUT_S),
    "stored": Step(_stored, STEP_TIMEOUT_S),
    "merge": Step(_merge, MERGE_TIMEOUT_S),
}


def cpu_s(page_count: int) -> float:
    """What a parser may use for something that it does with all pages of a document at once."""
    return _CPU_S + _CPU_PAGE_S * page_count


def paged(name: str, **own: Any) -> Paged:  # noqa: ANN401 - the fields of a Paged that are not the same for all
    return Paged(
        name=name,
        sniffed=sniffing.of_pages,
        suffixes=sniffing.SUFFIXES,
        steps=STEPS,
        process=process,
        checked=checked,
        so_far=so_far,
        **own,
    )
