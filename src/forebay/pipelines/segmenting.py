"""The first steps of `segment`: make Markdown of a document, and cut that into articles.

What has pages is read as `ocr` reads it, by chunks of the same kinds; one more chunk waits for them, and goes on.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import IO, Any

from forebay.engine.context import Context
from forebay.engine.signals import Permanent
from forebay.engine.split import MAX_CHUNKS
from forebay.errors import BadInput
from forebay.ids import shown
from forebay.model import payload as json_text
from forebay.model.outcome import Completed, Outcome, Rescheduled
from forebay.model.payload import Json
from forebay.model.task import NewTask, Role, Status
from forebay.pipelines import job_time, sources
from forebay.pipelines.cutting import Order, Terms, cut, task_options
from forebay.pipelines.ground import Ground
from forebay.pipelines.paper import markdown_of
from forebay.pipelines.pipeline import OCR, SEGMENT
from forebay.pipelines.splitting import carried, may_have_holes
from forebay.pipelines.whole import Lost, Result, results
from forebay.processors.base import Processor
from forebay.processors.office.types import NEEDED
from forebay.rules import chunks as rules
from forebay.rules.articles import RULE_VERSION, USUAL_SIZE, check_size
from forebay.rules.verdict import ErrorClass

_FIRST_LOOK_S = 0.1
_LOOK_S = 10.0
_GROWS = 1.2
_MOST = 50
_OF_SCANS = ("language", "ocr")


def checked(ground: Ground, processor: Processor, options: Mapping[str, Any]) -> dict[str, Json]:
    """How long an article may be, and who reads the pages with which options; the rest is for who tags the articles."""
    given = dict(options)
    max_size = check_size(given.pop("max_size", USUAL_SIZE))
    name = given.pop("reader", "local")
    reader = ground.processors.get(name) if isinstance(name, str) else None
    if reader is None or reader.pipeline != OCR:
        raise BadInput(f"{shown(name)} does not read pages.", remedy="Name a processor of `ocr` as the reader.")
    of_reader = given.pop("reader_options", {})
    if not isinstance(of_reader, dict):
        raise BadInput(f"reader_options is {shown(of_reader)}.", remedy='Give an object such as {"dpi": 300}.')
    of_scans = {each: given.pop(each) for each in _OF_SCANS if each in given}
    return {
        "max_size": max_size,
        "reader": reader.name,
        "reader_options": reader.checked({**of_reader, **of_scans}),
        "articles": processor.checked(given),
        "rule": RULE_VERSION,
    }


async def split(ground: Ground, ctx: Context, payload: dict[str, Any]) -> Outcome:
    return await job_time.within(ground, ctx, _split(ground, ctx, Order.of(payload)))


async def articles(ground: Ground, ctx: Context, payload: dict[str, Any]) -> Outcome:
    return await job_time.within(ground, ctx, _articles(ground, ctx, payload))


async def _split(ground: Ground, ctx: Context, order: Order) -> Completed:
    if ctx.blob is None:
        raise Permanent("The split was submitted without a document.", error_class=ErrorClass.BUG)
    async with sources.document(ground, ctx.blob) as file:
        if order.media_type in NEEDED:
            return await _converted(ground, ctx, order, file)
        return await _cut_into_pages(ground, ctx, order, file)


async def _converted(ground: Ground, ctx: Context, order: Order, file: IO[bytes]) -> Completed:
    with tempfile.TemporaryFile() as markdown:
        files = [file.fileno(), markdown.fileno()]
        said: Any = await ground.parser().call("convert", {"media_type": order.media_type}, files=files)
        ctx.checkpoint()
        starts = said["starts"] if said["paged"] else []
        tasks = await _cut(ground, ctx, order, markdown, starts)
    told = {"pages": len(starts) or 1, "chunks": len(tasks), "repaired": False, "notes": [], "converted": True}
    return Completed(result_json=json_text.encode(told), follow_ups=tasks)


async def _cut_into_pages(ground: Ground, ctx: Context, order: Order, file: IO[bytes]) -> Completed:
    reader: Any = order.options["reader"]
    options: Any = order.options["reader_options"]
    pages = replace(order, processor=reader, options=options, timed=True)
    terms = Terms(
        tenant=ctx.tenant,
        options=carried(ctx),
        max_pages=ground.processors[reader].max_pages,
        strict=not await asyncio.to_thread(may_have_holes, ground, ctx),
        index=rules.PAGES_INDEX,
    )
    made = await cut(ground, file, pages, terms)
    waiting = ground.submissions().task(
        ground.pipelines[SEGMENT].kind("articles"),
        {**order.payload, "page_count": made.page_count},
        carried(ctx),
        role=Role.CHUNK,
        chunk_index=rules.ARTICLES_INDEX,
    )
    return Completed(result_json=json_text.encode(made.told), follow_ups=(*made.tasks, waiting))


async def _articles(ground: Ground, ctx: Context, payload: Mapping[str, Any]) -> Outcome:
    """Comes back until all pages were read; those that could not be are holes, or fail the document."""
    order, page_count = Order.of(payload), int(payload["page_count"])
    job = await asyncio.to_thread(ground.ledger().get_job, ctx.job_id or "")
    if job is None or job.open_count > 1:
        return _later(ctx)
    found = await asyncio.to_thread(lambda: [*results(ground, ctx.chunks().tasks())])
    missing = [each for each in found if each.task.status is not Status.COMPLETED]
    if missing and not job.allow_holes:
        raise _unread(missing)
    with tempfile.TemporaryFile() as markdown:
        try:
            starts = await asyncio.to_thread(markdown_of, order, page_count, found, markdown)
        except Lost as lost:
            await asyncio.to_thread(ctx.lost, lost.task, lost.event)
            return _later(ctx)
        ctx.checkpoint()
        tasks = await _cut(ground, ctx, order, markdown, starts)
    return Completed(result_json=json_text.encode({"articles": len(tasks)}), follow_ups=tasks)


def _later(ctx: Context) -> Rescheduled:
    delay_s = min(_LOOK_S, _FIRST_LOOK_S * _GROWS ** min(_MOST, ctx.reschedule_count))
    return Rescheduled(delay_s=delay_s, text="its pages are being read")


def _unread(missing: list[Result]) -> Permanent:
    first = missing[0]
    named = ", ".join(f"{each.page_start}-{each.page_end}" for each in missing[:_MOST])
    hole = first.hole
    return Permanent(
        f"Pages {named} could not be read.", error_class=hole.error_class if hole else ErrorClass.CORRUPTED_CONTENT
    )


async def _cut(
    ground: Ground, ctx: Context, order: Order, markdown: IO[bytes], page_starts: list[int]
) -> tuple[NewTask, ...]:
    """A chunk for each article, with its text."""
    with tempfile.TemporaryFile() as lines:
        asked: dict[str, Json] = {
            "max_size": order.options["max_size"],
            "page_starts": [*page_starts],
            "max_articles": MAX_CHUNKS,
        }
        await ground.parser().call("articles", asked, files=[markdown.fileno(), lines.fileno()])
        ctx.checkpoint()
        return await asyncio.to_thread(lambda: tuple(_tasks(ground, ctx, order, _parsed(lines))))


def _parsed(lines: IO[bytes]) -> Iterator[dict[str, Any]]:
    lines.seek(0)
    return map(json.loads, lines)


def _tasks(ground: Ground, ctx: Context, order: Order, found: Iterable[dict[str, Any]]) -> Iterator[NewTask]:
    kind = ground.pipeline(order.processor).kind(order.processor)
    chosen: Any = order.options["articles"]
    options = task_options(ground, order, carried(ctx))
    for article in found:
        text: str = article.pop("text")
        ordinal: int = article["ordinal"]
        payload = {
            "document": order.document,
            "processor": order.processor,
            "options": {**chosen, "text": hashlib.sha256(text.encode()).hexdigest()},
            "reuse": order.reuse,
            "pages": [ordinal, ordinal],
            "page_count": 1,
            "depth": 0,
            "article": article,
            "text": text,
            **order.chosen,
        }
        # Counted from 0, as all chunks are; what is shown to readers counts articles from 1.
        yield ground.submissions().task(kind, payload, options, role=Role.CHUNK, chunk_index=ordinal - 1)
