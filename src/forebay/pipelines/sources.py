"""Opens what a step reads: a document, and a chunk's pages, cut out of it once more where their own copy is lost."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import IO

from forebay.blobs import BlobRef
from forebay.engine.context import Context
from forebay.engine.signals import Permanent
from forebay.errors import BlobMissing, ResultCorrupt
from forebay.observe import emit
from forebay.pipelines import sniffing
from forebay.pipelines.ground import Ground
from forebay.pipelines.part import Part
from forebay.rules.verdict import ErrorClass

_LOST = (BlobMissing, ResultCorrupt)
_ANY_SIZE = 1 << 62


@asynccontextmanager
async def document(ground: Ground, ref: BlobRef) -> AsyncIterator[IO[bytes]]:
    """The bytes that were handed in; Permanent says what to do where the store has them no more."""
    async with AsyncExitStack() as stack:
        try:
            file = await stack.enter_async_context(ground.opened(ref))
        except _LOST as error:
            emit("document_lost", tenant=ref.tenant, sha256=ref.sha256, error_code=error.code, text=str(error))
            raise Permanent(
                f"The stored copy of the document is lost: {error.public} Hand the document in again, as with "
                "`forebay run FILE`: what was read of it is used again.",
                error_class=ErrorClass.SERVICE_UNAVAILABLE,
            ) from None
        yield file


@asynccontextmanager
async def pages(ground: Ground, ctx: Context, part: Part) -> AsyncIterator[IO[bytes]]:
    """The PDF of a chunk's own pages."""
    if ctx.blob is None:
        raise Permanent("The chunk was submitted without its pages.", error_class=ErrorClass.BUG)
    async with AsyncExitStack() as stack:
        try:
            file = await stack.enter_async_context(ground.opened(ctx.blob))
        except _LOST:
            file = await stack.enter_async_context(_cut_out(ground, ctx.tenant, part))
        yield file


@asynccontextmanager
async def _cut_out(ground: Ground, tenant: str, part: Part) -> AsyncIterator[IO[bytes]]:
    with tempfile.TemporaryFile() as output:
        async with document(ground, BlobRef(tenant, part.order.document)) as original:
            await ground.parser().call(
                "split",
                {
                    "media_type": sniffing.media_type(original.read(sniffing.HEAD_BYTES)),
                    "max_document_pages": ground.max_pages(),
                    "max_pages": part.size,
                    "max_bytes": _ANY_SIZE,
                    "first": 1,
                    "pages": list(part.pages),
                },
                files=[original.fileno(), output.fileno()],
            )
        output.seek(0)
        # Cut as it was before, it takes the place of the copy that was lost.
        await asyncio.to_thread(ground.blobs().put, tenant, output)
        output.seek(0)
        yield output
