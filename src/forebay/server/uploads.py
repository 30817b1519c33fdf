"""Takes a document in while it is being sent: piece by piece into a draft, which is gone if its sender is."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO

from fastapi import Request

from forebay.blobs import BlobRef, Blobs
from forebay.blobs.os_errors import in_temp_folder
from forebay.blobs.store import Writing
from forebay.pipelines import intake
from forebay.pipelines.pipeline import Pipeline
from forebay.server.bodies import check_length, in_time, too_large
from forebay.server.callers import Caller
from forebay.server.multipart import Form
from forebay.server.quotas import Allowance
from forebay.server.service import Service
from forebay.server.upload_room import Held, is_small

_FORM = "multipart/form-data"
_PIECE = 1 << 20
_HEAD_BYTES = 64 * 1024
_ZIP = b"PK\x03\x04"
_FORM_BYTES = 128 * 1024
_BOUNDS = ("upload_max_bytes", "document_max_bytes")


Chosen = Callable[[Mapping[str, str]], Pipeline]
"""The pipeline that the query chooses, with what the fields of a form have said."""


class Upload:
    """What came: the document, what its sender calls it, and the fields of the form that it came in.

    It is a draft until it is kept, and gone if it is not.
    """

    def __init__(
        self,
        taken: _Taking,
        media_type: str,
        name: str | None,
        fields: Mapping[str, str],
        allowance: Allowance,
    ) -> None:
        self._taken = taken
        self._media_type = media_type
        self._name = name
        self.fields = fields
        self.allowance = allowance

    def named(self, name: str | None) -> intake.Document:
        """Blocking: all of a document may have to be read for what it is known by."""
        ref = self._taken.ref()
        given = name or self._name or "document"
        return intake.Document(ref.sha256, ref.size or 0, self._media_type, intake.label(given))

    def keep(self) -> None:
        """Blocking; durable when it returns."""
        self._taken.publish()


@asynccontextmanager
async def received(
    service: Service, request: Request, caller: Caller, chosen: Chosen, still_here: Callable[[], Awaitable[None]]
) -> AsyncIterator[Upload]:
    """`still_here` is called every few seconds while bytes come."""
    most, bound = min((getattr(service.app.settings, name), name) for name in _BOUNDS)
    smaller = f"Split the document, or have the server's setting {bound} raised."
    said = request.headers.get("content-type", "")
    form = Form(said) if said.lower().startswith(_FORM) else None
    length = check_length(request, most if form is None else most + _FORM_BYTES, remedy=smaller)
    async with AsyncExitStack() as stack:
        allowance = await stack.enter_async_context(service.quotas.job(caller, length))
        memory = stack.enter_context(service.uploads.enter(caller.flow, small=is_small(request)))
        taking = _Taking(service, caller.own_tenant, most, smaller, memory, stack)
        async for data in in_time(request, service.slow_after_s, still_here):
            await taking.take(data if form is None else form.feed(data))
            allowance.hold(taking.size)
            # Fields that follow the file may yet choose another pipeline.
            if taking.unseen and form is None:
                taking.look(chosen({}))
            del data  # or it would be held twice until the next piece comes
        if form is not None:
            form.finish()
        fields = form.fields if form else {}
        media_type = await taking.finished(chosen(fields))
        yield Upload(taking, media_type, form.file_name if form else None, fields, allowance)


class _Taking:
    """Gathers small pieces, so that a thread is needed once for many; what is small is written in one go."""

    def __init__(  # noqa: PLR0917 - of this module only
        self, service: Service, tenant: str, most: int, smaller: str, memory: Held, stack: AsyncExitStack
    ) -> None:
        self._service = service
        self._tenant = tenant
        self._most = most
        self._smaller = smaller
        self._memory = memory
        self._stack = stack
        self._blob: Writing | None = None
        self._size = 0
        self._head = b""
        self._media_type: str | None = None
        self._held = bytearray()
        self._copy: IO[bytes] | None = None

    @property
    def size(self) -> int:
        return self._size

    @property
    def unseen(self) -> bool:
        """Whether enough has come to tell what it is, and nobody has looked."""
        return self._media_type is None and self._size >= _HEAD_BYTES and not self._start.startswith(_ZIP)

    @property
    def _start(self) -> bytes:
        """The first bytes: kept apart only once they were written out."""
        return bytes(self._held[:_HEAD_BYTES]) if self._blob is None else self._head

    async def take(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._most:
            raise too_large(self._most, remedy=self._smaller)
        if self._blob is not None:
            self._head += data[: _HEAD_BYTES - len(self._head)]
        self._held += data
        # Without memory for more of it, what came is written out at once.
        if len(self._held) >= _PIECE or not self._memory.hold(len(self._held)):
            await self._write()

    def look(self, pipeline: Pipeline) -> str:
        self._media_type = pipeline.sniffed(BytesIO(self._start))
        return self._media_type

    async def finished(self, pipeline: Pipeline) -> str:
        """What the document is, now that all of it has come."""
        if self._blob is None:
            return self._media_type or pipeline.sniffed(BytesIO(self._held))
        await self._write()
        # An archive says at its end what it is; all else at its beginning.
        if self._copy is not None:
            return await self._service.take(pipeline.sniffed, self._copy)
        return self._media_type or self.look(pipeline)

    def ref(self) -> BlobRef:
        """Blocking, for a document that is held here is read."""
        if self._blob is None:
            return BlobRef(self._tenant, hashlib.sha256(self._held).hexdigest(), len(self._held))
        return self._blob.ref

    def publish(self) -> None:
        if self._blob is None:
            self._service.app.blobs.put(self._tenant, bytes(self._held))
        else:
            self._blob.publish()

    async def _write(self) -> None:
        if self._blob is None:
            opening = _writing(self._service, self._service.app.blobs, self._tenant)
            self._head = self._start
            self._blob = await self._stack.enter_async_context(opening)
            if self._head.startswith(_ZIP):
                # A draft cannot be read.
                self._copy = self._stack.enter_context(_temporary())
        held, self._held = bytes(self._held), bytearray()
        if held:
            await self._service.take(self._blob.write, held)
            if self._copy is not None:
                await self._service.take(_copied, self._copy, held)
        self._memory.hold(0)


def _temporary() -> IO[bytes]:
    with in_temp_folder():
        return TemporaryFile()


def _copied(copy: IO[bytes], data: bytes) -> None:
    with in_temp_folder():
        copy.write(data)


@asynccontextmanager
async def _writing(service: Service, blobs: Blobs, tenant: str) -> AsyncIterator[Writing]:
    opening = blobs.writing(tenant)
    blob = await service.take(opening.__enter__)
    try:
        yield blob
    finally:
        # Even when this very request is cancelled: a draft that nobody throws away would stay for a day.
        await asyncio.shield(service.take(opening.__exit__, None, None, None))
