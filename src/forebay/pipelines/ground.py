"""What the steps of a document's pipeline stand on, and how they keep and find bytes without holding up the loop."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, Protocol

from forebay.blobs import BlobRef, Blobs
from forebay.engine.submission import Submissions
from forebay.model.budget import Budget
from forebay.model.payload import Json
from forebay.processors.base import Processor
from forebay.stores.base import Ledger

PIPELINE = "ocr"
SPLIT = f"{PIPELINE}.split"
STORED = f"{PIPELINE}.stored"
MERGE = f"{PIPELINE}.merge"
_PIECE = 1 << 20


def chunk_kind(processor: str) -> str:
    return f"{PIPELINE}.{processor}"


class Parser(Protocol):
    """Runs a verb on untrusted bytes, apart from everything else; `processors.parsers` has the real one."""

    async def call(
        self,
        verb: str,
        arguments: Mapping[str, Json],
        *,
        files: Sequence[int] = (),
        cpu_s: float | None = None,
        timeout_s: float | None = None,
    ) -> Json: ...


@dataclass(frozen=True, slots=True)
class Ground:
    """Each is called when it is needed, so that who only submits opens nothing."""

    ledger: Callable[[], Ledger]
    blobs: Callable[[], Blobs]
    submissions: Callable[[], Submissions]
    parser: Callable[[], Parser]
    processors: Mapping[str, Processor]
    max_pages: Callable[[], int]
    budgets: Callable[[], Sequence[Budget]]

    @asynccontextmanager
    async def opened(self, ref: BlobRef) -> AsyncIterator[IO[bytes]]:
        """A private file with the blob's bytes, checked."""
        with tempfile.TemporaryFile() as copy:
            await asyncio.to_thread(self._copy, ref, copy)
            yield copy

    def _copy(self, ref: BlobRef, copy: IO[bytes]) -> None:
        with self.blobs().open(ref) as stored:
            while piece := stored.read(_PIECE):
                copy.write(piece)
        copy.flush()
        copy.seek(0)

    async def keep_part(self, tenant: str, file: IO[bytes], offset: int, size: int) -> str:
        """Store a part of a file under its sha256."""
        ref = await asyncio.to_thread(lambda: self.blobs().put(tenant, _part(file, offset, size)))
        return ref.sha256


def _part(file: IO[bytes], offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)
