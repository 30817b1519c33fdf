"""The step of an article: what is known of the same text is used again, and what is not is asked for."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from typing import IO, Any

from forebay.engine.context import Context
from forebay.engine.signals import Permanent
from forebay.errors import BadChunks
from forebay.model import payload as json_text
from forebay.model.exchange import Remembered
from forebay.model.outcome import Completed, Outcome, Rescheduled
from forebay.model.payload import Json
from forebay.model.task import WaitReason
from forebay.pipelines import job_time
from forebay.pipelines.budgeting import book, held_back
from forebay.pipelines.ground import Ground
from forebay.pipelines.part import Part
from forebay.pipelines.processing import called
from forebay.processors.base import Chunk
from forebay.processors.schema import problem
from forebay.rules.verdict import ErrorClass

MAX_TAGS = 50
MAX_TAG = 100
_ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "lang": {"type": "string", "minLength": 2, "maxLength": 35},
        "tags": {
            "type": "array",
            "maxItems": MAX_TAGS,
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_TAG},
        },
    },
    "required": ["lang", "tags"],
}
_MOST_BYTES = 64 * 1024


async def process(ground: Ground, ctx: Context, payload: dict[str, Any]) -> Outcome:
    return await job_time.within(ground, ctx, _tagged(ground, ctx, payload))


async def _tagged(ground: Ground, ctx: Context, payload: dict[str, Any]) -> Outcome:
    ctx.checkpoint()
    part = Part.of(payload)
    processor = ground.processors[part.order.processor]
    key = part.key(processor, ctx.task_id)
    if known := await asyncio.to_thread(ground.ledger().recall, ctx.tenant, [key]):
        answer: Any = json_text.parse(known[0].result_json or "null")
        return _completed(answer, reused=True)
    if over := await asyncio.to_thread(held_back, ground, ctx, part):
        return Rescheduled(until=over.look_again_at(time.time()), text=str(over), wait_reason=WaitReason.BUDGET)
    with tempfile.TemporaryFile() as file:
        await asyncio.to_thread(_written, file, payload["text"])
        chunk = Chunk(
            document=part.order.document,
            page_start=part.pages[0],
            page_end=part.pages[1],
            file=file,
            options={**part.order.options, "reuse": part.order.reuse},
        )
        made = await called(ctx, processor, chunk)
    answer = _checked(made)
    book(ctx, part, processor)
    entries = [
        Remembered(tenant=ctx.tenant, key=each, document=part.order.document, result_json=json_text.encode(answer))
        for each in part.kept_by(processor, key)
    ]
    await asyncio.to_thread(ground.ledger().remember, entries)
    return _completed(answer, reused=False)


def _written(file: IO[bytes], text: str) -> None:
    file.write(text.encode())
    file.flush()
    file.seek(0)


def _checked(made: object) -> dict[str, Json]:
    """A processor's word is checked, whoever wrote it: its answer is shown to people and kept."""
    if not isinstance(made, bytes) or len(made) > _MOST_BYTES:
        raise Permanent("A processor of articles returns a little JSON, as bytes.", error_class=ErrorClass.BUG)
    try:
        answer: dict[str, Json] = json.loads(made)
    except ValueError:
        raise Permanent("What a processor made of an article is not JSON.", error_class=ErrorClass.BUG) from None
    if (wrong := problem(answer, _ANSWER)) is not None:
        raise BadChunks(f"What a processor made of an article cannot be used: {wrong}.", remedy="Mend the processor.")
    return answer


def _completed(answer: dict[str, Json], *, reused: bool) -> Completed:
    return Completed(result_json=json_text.encode({**answer, "reused": reused}))
