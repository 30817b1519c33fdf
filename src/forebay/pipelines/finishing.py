"""The last step of a document: merge what came of its chunks, whole or with its holes named."""

from __future__ import annotations

import asyncio

from forebay.engine.context import Context
from forebay.model import payload as json_text
from forebay.model.outcome import Canceled, Completed
from forebay.pipelines.cutting import Order
from forebay.pipelines.ground import Ground
from forebay.pipelines.whole import Lost, whole


async def merge(ground: Ground, ctx: Context, order: Order) -> Completed | Canceled:
    """A result that is gone or damaged has its chunk run again: this merge is over, and another will follow."""
    found = await asyncio.to_thread(whole, ground, ctx, order)
    try:
        made = await ground.paged(order.processor).merged(ground, found)
    except Lost as lost:
        await asyncio.to_thread(ctx.lost, lost.task)
        return Canceled(text=f"The result of chunk {lost.task.chunk_index} is lost", events=(lost.event,))
    return Completed(result_json=json_text.encode(made.summary), result_blob=made.blob)
