"""Takes a document in while it is being sent: checked and stored piece by piece, and gone if its sender is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from fastapi import Request

from forebay.blobs import BlobRef, Blobs
from forebay.blobs.store import Writing
from forebay.pipelines import intake, sniffing
from forebay.server.bodies import check_length, too_large
from forebay.server.multipart import Form
from forebay.server.problems import Refused
from forebay.server.service import Service

MAX_AT_ONCE: Final = 64
_FORM = "multipart/form-data"
_PIECE = 1 << 20
_LEAST_BYTES_S = 1024
_FORM_BYTES = 128 * 1024


class Upload:
    """What came: the document, and the fields of the form that it came in."""

    def __init__(self, document: intake.Document, fields: dict[str, str]) -> None:
        self.document = document
        self.fields = fields


async def received(
    service: Service, request: Request, tenant: str, name: str | None, still_here: Callable[[], Awaitable[None]]
) -> Upload:
    """`still_here` is called every few seconds while bytes come."""
    most = service.app.settings.upload_max_bytes
    media_type = request.headers.get("content-type", "")
    form = Form(media_type) if media_type.lower().startswith(_FORM) else None
    check_length(request, most if form is None else most + _FORM_BYTES)
    if service.uploads >= MAX_AT_ONCE:
        raise Refused(
            503,
            "too_many_uploads",
            f"{MAX_AT_ONCE} documents are being sent already.",
            remedy="Send it in a moment.",
            headers={"retry-after": "5"},
            closing=True,
        )
    service.uploads += 1
    try:
        async with AsyncExitStack() as stack:
            taking = _Taking(service, tenant, most, stack)
            async for data in _in_time(request, service.slow_after_s, still_here):
                await taking.take(data if form is None else form.feed(data))
            if form is not None:
                form.finish()
            media_type, ref = await taking.published()
    finally:
        service.uploads -= 1
    given = name or (form.file_name if form else None) or "document"
    size = ref.size or 0
    return Upload(intake.Document(ref.sha256, size, media_type, intake.label(given)), form.fields if form else {})


class _Taking:
    """Gathers small pieces, so that a thread is needed once for many; looks at the first bytes before any is kept.

    What is small is written in one go.
    """

    def __init__(self, service: Service, tenant: str, most: int, stack: AsyncExitStack) -> None:
        self._service = service
        self._tenant = tenant
        self._most = most
        self._stack = stack
        self._blob: Writing | None = None
        self._size = 0
        self._media_type: str | None = None
        self._held = bytearray()

    async def take(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._most:
            raise too_large(self._most)
        self._held += data
        if self._media_type is None and len(self._held) >= sniffing.HEAD_BYTES:
            self._look()
        if len(self._held) >= _PIECE:
            await self._write()

    async def published(self) -> tuple[str, BlobRef]:
        """What the document is, and where all of it lies."""
        media_type = self._media_type or self._look()
        if self._blob is None:
            return media_type, await self._service.take(self._service.app.blobs.put, self._tenant, bytes(self._held))
        await self._write()
        return media_type, await self._service.take(self._blob.publish)

    def _look(self) -> str:
        self._media_type = sniffing.media_type(bytes(self._held[: sniffing.HEAD_BYTES]))
        return self._media_type

    async def _write(self) -> None:
        if self._blob is None:
            opening = _writing(self._service, self._service.app.blobs, self._tenant)
            self._blob = await self._stack.enter_async_context(opening)
        held, self._held = bytes(self._held), bytearray()
        if held:
            await self._service.take(self._blob.write, held)


@asynccontextmanager
async def _writing(service: Service, blobs: Blobs, tenant: str) -> AsyncIterator[Writing]:
    opening = blobs.writing(tenant)
    blob = await service.take(opening.__enter__)
    try:
        yield blob
    finally:
        # Even when this very request is cancelled: a draft that nobody throws away would stay for a day.
        await asyncio.shield(service.take(opening.__exit__, None, None, None))


async def _in_time(
    request: Request, slow_after_s: float, still_here: Callable[[], Awaitable[None]]
) -> AsyncIterator[bytes]:
    """The body, as long as it comes at more than a trickle."""
    loop = asyncio.get_running_loop()
    pieces = request.stream().__aiter__()
    until = loop.time() + slow_after_s
    told_at = time.monotonic()
    got = 0
    while True:
        try:
            async with asyncio.timeout_at(until):
                data = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refused(
                408,
                "too_slow",
                f"Less than {_LEAST_BYTES_S} bytes a second came for {slow_after_s:g} s.",
                remedy="Send it again over a faster line.",
                closing=True,
            ) from None
        got += len(data)
        if got >= _LEAST_BYTES_S * slow_after_s:
            got, until = 0, loop.time() + slow_after_s
        yield data
        if time.monotonic() - told_at > slow_after_s / 3:
            told_at = time.monotonic()
            await still_here()
