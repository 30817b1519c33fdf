"""The step of a chunk: what is stored is used again, what is not is processed, and what cannot be read is halved."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from typing import Any

from forebay.blobs import BlobRef
from forebay.engine import outcomes
from forebay.engine.context import Context
from forebay.errors import BadChunks, NotFound, ResultCorrupt
from forebay.model import document as model
from forebay.model import payload as json_text
from forebay.model.exchange import Remembered
from forebay.model.job import Event
from forebay.model.names import LABEL_LENGTH
from forebay.model.outcome import Completed, Failed, Rescheduled
from forebay.model.payload import Json
from forebay.model.task import WaitReason
from forebay.pipelines import replanned, sources
from forebay.pipelines.budgeting import CALLS, book, held_back
from forebay.pipelines.cutting import Cut, Terms, cut
from forebay.pipelines.ground import Ground
from forebay.pipelines.part import Part
from forebay.pipelines.splitting import carried
from forebay.pipelines.under_way import Recorded, recalled
from forebay.processors.base import Chunk, Processor
from forebay.rules import chunks as rules

_SHORT = 12  # of a sha256, where a document has no name


async def process(ground: Ground, ctx: Context, payload: Mapping[str, Any]) -> Completed | Rescheduled:
    part = Part.of(payload)
    processor = ground.processors[part.order.processor]
    known, key = await _known(ground, ctx, part, part.key(processor, ctx.task_id))
    if known is not None:
        return known
    if (cut_for := await asyncio.to_thread(replanned.known, ground, ctx, part)) is not None:
        return await _halved(ground, ctx, part, cut_for)
    under_way = await asyncio.to_thread(recalled, ground, ctx, part, key)
    # What the provider works on already is paid for: to wait would not save it.
    if under_way.job is None and (over := await asyncio.to_thread(held_back, ground, ctx, part)):
        return Rescheduled(until=over.look_again_at(time.time()), text=str(over), wait_reason=WaitReason.BUDGET)
    try:
        result = await _processed(ground, ctx, part, processor, under_way)
    except Exception as error:
        failed = outcomes.of_error(error)
        if not isinstance(failed, Failed):
            raise
        if rules.replans(failed.error_class, page_count=part.size, retry_count=ctx.retry_count):
            return await _halved(ground, ctx, part, failed)
        raise
    try:
        return await _kept(ground, ctx, part, key, result)
    except BadChunks:
        if under_way.job is not None:
            await under_way.end("bad result")  # the same job would only give the same again
        raise


async def stored(ground: Ground, ctx: Context, payload: Mapping[str, Any]) -> Completed:
    """A chunk whose result was known when its document was split; if it is lost, the chunk is processed after all."""
    part = Part.of(payload)
    key = part.key(ground.processors[part.order.processor], ctx.task_id)
    known, _ = await _known(ground, ctx, part, key)
    return known or await _again(ground, ctx, part)


async def _known(ground: Ground, ctx: Context, part: Part, key: str) -> tuple[Completed | None, str]:
    """The result that was paid for before, if its bytes are what they were, else the key for another one.

    What is remembered stays: after a result that was lost, the next is looked for under a key that follows from both.
    """
    while True:
        asked = key
        found = await asyncio.to_thread(lambda asked=asked: ground.ledger().recall(ctx.tenant, [asked]))  # type: ignore[misc]  # a default is how a loop's value is kept
        if not found or found[0].result_blob is None:
            return None, key
        blob = found[0].result_blob
        try:
            return await _read_again(ground, ctx.tenant, part, blob), key
        except (ResultCorrupt, NotFound, BadChunks):
            key = rules.next_key(key, blob)


async def _read_again(ground: Ground, tenant: str, part: Part, blob: str) -> Completed:
    result = await asyncio.to_thread(ground.blobs().get, BlobRef(tenant, blob))
    header = await _header(ground, part, result, reused=True)
    # Written once more, which makes it young: nobody may sweep it away before this chunk points at it.
    await asyncio.to_thread(ground.blobs().put, tenant, result)
    return Completed(result_json=header, result_blob=blob)


async def _processed(ground: Ground, ctx: Context, part: Part, processor: Processor, under_way: Recorded) -> bytes:
    if processor.limit is not None:
        ctx.describe(await asyncio.to_thread(_works_on, ground, ctx, part))
    async with AsyncExitStack() as stack:
        opening = sources.pages(ground, ctx, part) if under_way.job is None else ground.opened(None)
        chunk = Chunk(
            document=part.order.document,
            page_start=part.pages[0],
            page_end=part.pages[1],
            file=await stack.enter_async_context(opening),
            options=part.order.options,
            under_way=under_way,
        )
        if processor.page_units is not None and under_way.job is None:
            asked: dict[str, Json] = {"page_units": list(processor.page_units), "first": chunk.page_start}
            await ground.parser().call("fits", asked, files=[chunk.file.fileno()])
        made = await called(ctx, processor, chunk)
    if not under_way.count:
        book(ctx, part, processor)
    return made if isinstance(made, bytes) else model.encoded(made)


def _works_on(ground: Ground, ctx: Context, part: Part) -> str:
    """As `limits show` names it: the document and the pages."""
    job = None if ctx.job_id is None else ground.ledger().get_job(ctx.job_id)
    first, last = part.pages
    pages = f"p. {first}" if first == last else f"p. {first}-{last}"
    return f"{(job.label if job else None) or part.order.document[:_SHORT]} {pages}"[:LABEL_LENGTH]


async def called(ctx: Context, processor: Processor, chunk: Chunk) -> Sequence[model.Page] | bytes:
    """Have the chunk processed, in a slot where that is one call."""
    if processor.slot != "handler":
        return await processor.process(ctx, chunk)
    async with ctx.slot(units=processor.units(chunk)) if processor.limit is not None else nullcontext():
        ctx.used(processor.name, CALLS, 1)
        return await processor.process(ctx, chunk)


async def _kept(ground: Ground, ctx: Context, part: Part, key: str, result: bytes) -> Completed:
    """Stored and remembered before the attempt ends: should its lease be lost, what was paid for is not."""
    header = await _header(ground, part, result)

    def keep() -> str:
        ref = ground.blobs().put(ctx.tenant, result)
        ground.ledger().remember(
            [
                Remembered(tenant=ctx.tenant, key=each, document=part.order.document, result_blob=ref.sha256)
                for each in part.kept_by(ground.processors[part.order.processor], key)
            ]
        )
        return ref.sha256

    return Completed(result_json=header, result_blob=await asyncio.to_thread(keep))


async def _header(ground: Ground, part: Part, result: bytes, *, reused: bool = False) -> str:
    """What a chunk's record tells of its result without reading it."""
    told = await ground.paged(part.order.processor).described(ground, result, part.size)
    said: dict[str, Json] = {"page_start": part.pages[0], "page_end": part.pages[1], **told}
    return json_text.encode(said | {"reused": reused})


async def _halved(ground: Ground, ctx: Context, part: Part, failed: Failed) -> Completed:
    fields: dict[str, Json] = {
        "page_start": part.pages[0],
        "page_end": part.pages[1],
        "error_class": failed.error_class,
        "error_text": failed.text,
    }
    event = Event(name="chunk_replanned", fields=fields)
    made = await _recut(ground, ctx, part, rules.smaller(part.size))
    await asyncio.to_thread(replanned.keep, ground, ctx, part, failed, made.ranges)
    return _followed(made, event)


async def _again(ground: Ground, ctx: Context, part: Part) -> Completed:
    fields: dict[str, Json] = {"page_start": part.pages[0], "page_end": part.pages[1]}
    event = Event(name="chunk_result_load_failed", fields=fields)
    return _followed(await _recut(ground, ctx, part, part.size, looks=False), event)


async def _recut(ground: Ground, ctx: Context, part: Part, max_pages: int, *, looks: bool = True) -> Cut:
    async with sources.pages(ground, ctx, part) as file:
        terms = Terms(
            tenant=ctx.tenant,
            options=carried(ctx),
            first=part.pages[0],
            depth=part.depth + 1,
            page_count=part.page_count,
            max_pages=max_pages,
            looks=looks,
        )
        return await cut(ground, file, part.order, terms)


def _followed(made: Cut, event: Event) -> Completed:
    """The chunk ends without pages of its own; those that follow it have them."""
    ranges: list[Json] = [list(pages) for pages in made.ranges]
    return Completed(result_json=json_text.encode({"replanned": ranges}), follow_ups=made.tasks, events=(event,))
