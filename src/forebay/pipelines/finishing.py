"""The last step of a document: merge what came of its chunks, whole or with its holes named."""

from __future__ import annotations

import asyncio

from forebay.engine.context import Context
from forebay.model import payload as json_text
from forebay.model.outcome import Canceled, Completed
from forebay.pipelines.cutting import Order
from forebay.pipelines.ground import Ground
from forebay.pipelines.whole import Lost, Whole, whole

_NAMED = 8


async def merge(ground: Ground, ctx: Context, order: Order) -> Completed | Canceled:
    """Results that are gone or damaged have their chunks run again: this merge is over, and another will follow."""
    found = await asyncio.to_thread(whole, ground, ctx, order)
    try:
        made = await ground.paged(order.processor).merged(ground, found)
    except Lost as first:
        lost = await asyncio.to_thread(_lose, ctx, found, first)
        which = ", ".join(str(each.task.chunk_index) for each in lost[:_NAMED]) + (", …" if len(lost) > _NAMED else "")
        return Canceled(text=f"The result of chunk {which} is lost")
    return Completed(result_json=json_text.encode(made.summary), result_blob=made.blob)


def _lose(ctx: Context, found: Whole, first: Lost) -> list[Lost]:
    """Blocking. All that cannot be read, not only the one that was found first: a merge for each would take long."""
    lost = [first]
    for result in found.results:
        if result.hole is None and result.task.id != first.task.id:
            try:
                result.read()
            except Lost as error:
                lost.append(error)
    for each in lost:
        ctx.lost(each.task, each.event)
    return lost
