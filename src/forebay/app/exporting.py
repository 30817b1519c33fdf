"""Writes what was read of a document in one of its formats."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import IO, TYPE_CHECKING

from forebay.blobs import BlobRef
from forebay.errors import BadInput, NotCompleted
from forebay.ids import printable
from forebay.model.job import Job
from forebay.pipelines import sniffing
from forebay.pipelines.exports import EXPORTS

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay

SEARCHABLE = "pdf"
FORMATS = (*EXPORTS, SEARCHABLE)
SUFFIXES = {name: export.suffix for name, export in EXPORTS.items()} | {SEARCHABLE: ".ocr.pdf"}
_PIECE = 1 << 20


def checked(formats: Sequence[str]) -> tuple[str, ...]:
    """Each once, in the order they were given; BadInput for one that there is not."""
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        said = f"There is no format {printable(unknown[0])!r}." if unknown else "No format is given."
        raise BadInput(said, remedy=f"Formats are: {', '.join(FORMATS)}.")
    return tuple(dict.fromkeys(formats))


@asynccontextmanager
async def merged(app: Forebay, job: Job) -> AsyncIterator[IO[bytes]]:
    """The result of a job, checked, to read from."""
    merge = None if job.merge_id is None else await asyncio.to_thread(app.ledger.get, job.merge_id)
    if merge is None or merge.result_blob is None:
        raise NotCompleted(f"Job {job.id} has no result.", remedy=f"`forebay why {job.id}` says why.")
    opening = app.blobs.open(BlobRef(job.tenant, merge.result_blob))
    file = await asyncio.to_thread(opening.__enter__)
    try:
        yield file
    finally:
        opening.__exit__(None, None, None)


async def write(app: Forebay, job: Job, result: IO[bytes], form: str, output: IO[bytes]) -> None:
    if form != SEARCHABLE:
        await asyncio.to_thread(EXPORTS[form].write, result, output)
        return
    with tempfile.TemporaryFile() as original, tempfile.TemporaryFile() as lines:
        media_type = await asyncio.to_thread(_prepare, app, job, result, original, lines)
        files = [original.fileno(), lines.fileno(), output.fileno()]
        await app.documents.parsers().call("searchable", {"media_type": media_type}, files=files)


def _prepare(app: Forebay, job: Job, result: IO[bytes], original: IO[bytes], lines: IO[bytes]) -> str:
    with app.blobs.open(BlobRef(job.tenant, job.document or "")) as stored:
        media_type = sniffing.media_type(stored.read(sniffing.HEAD_BYTES))
        stored.seek(0)
        _copy(stored, original)
    result.seek(0)
    _copy(result, lines)
    return media_type


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    while piece := source.read(_PIECE):
        target.write(piece)
    target.flush()
    target.seek(0)
