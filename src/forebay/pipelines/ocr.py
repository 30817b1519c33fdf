"""The pipeline that reads pages: a chunk's result is a line of JSON for each, the document's is all of them."""

from __future__ import annotations

import asyncio
import tempfile
from functools import partial
from typing import IO

from forebay.blobs import BlobRef
from forebay.model.job import Job
from forebay.model.payload import Json
from forebay.pipelines import facts, reading, sniffing
from forebay.pipelines.exports import EXPORTS, Export
from forebay.pipelines.facts import Summed
from forebay.pipelines.ground import Ground, copied
from forebay.pipelines.merging import Piece
from forebay.pipelines.merging import merged as streamed
from forebay.pipelines.paged import cpu_s, paged
from forebay.pipelines.pipeline import OCR as NAME
from forebay.pipelines.pipeline import Merged, Output
from forebay.pipelines.whole import Result, Whole


async def _described(_: Ground, lines: bytes, page_count: int) -> dict[str, Json]:
    return await asyncio.to_thread(facts.of, lines, page_count)


async def _merged(ground: Ground, whole: Whole) -> Merged:
    return await asyncio.to_thread(_merge, ground, whole)


def _merge(ground: Ground, whole: Whole) -> Merged:
    result = Summed(
        streamed(
            {"sha256": whole.order.document, "media_type": whole.order.media_type},
            whole.page_count,
            map(piece, whole.results),
            repaired=whole.repaired,
            notes=whole.notes,
            lacking=whole.lacking,
        )
    )
    ref = ground.blobs().put(whole.tenant, result)
    return Merged(result.summary, ref.sha256)


def piece(result: Result) -> Piece:
    return Piece(
        document=result.document,
        page_start=result.page_start,
        page_end=result.page_end,
        lines=result.hole or (lambda: result.read().splitlines(keepends=True)),
    )


async def _exported(export: Export, _: Ground, __: Job, merged: IO[bytes], output: IO[bytes]) -> None:
    await asyncio.to_thread(export.write, merged, output)


async def _searchable(ground: Ground, job: Job, merged: IO[bytes], output: IO[bytes]) -> None:
    """The document itself, with what was recognized laid invisibly over it."""
    with tempfile.TemporaryFile() as original, tempfile.TemporaryFile() as lines:
        media_type = await asyncio.to_thread(_prepare, ground, job, merged, original, lines)
        files = [original.fileno(), lines.fileno(), output.fileno()]
        pages = (await asyncio.to_thread(reading.summary, merged))["page_count"]
        await ground.parser().call("searchable", {"media_type": media_type}, files=files, cpu_s=cpu_s(pages))


def _prepare(ground: Ground, job: Job, merged: IO[bytes], original: IO[bytes], lines: IO[bytes]) -> str:
    with ground.blobs().open(BlobRef(job.tenant, job.document or "")) as stored:
        media_type = sniffing.media_type(stored.read(sniffing.HEAD_BYTES))
        stored.seek(0)
        copied(stored, original)
    merged.seek(0)
    copied(merged, lines)
    return media_type


OCR = paged(
    NAME,
    processors=("local",),
    described=_described,
    merged=_merged,
    outputs={name: Output(export.suffix, partial(_exported, export)) for name, export in EXPORTS.items()}
    | {"pdf": Output(".ocr.pdf", _searchable, is_text=False)},
    usual=("md", "json"),
)
