"""What the steps of a document's pipeline stand on, and how they keep and find bytes without holding up the loop."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO

from forebay.blobs import BlobRef, Blobs
from forebay.engine.signals import Permanent
from forebay.engine.submission import Submissions
from forebay.model.budget import Budget
from forebay.model.payload import Json
from forebay.pipelines.pipeline import Paged, Pipeline
from forebay.processors.base import Parser, Processor
from forebay.rules.verdict import ErrorClass
from forebay.stores.base import Ledger

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Ground:
    """Each is called when it is needed, so that who only submits opens nothing."""

    ledger: Callable[[], Ledger]
    blobs: Callable[[], Blobs]
    submissions: Callable[[], Submissions]
    parser: Callable[[], Parser]
    processors: Mapping[str, Processor]
    pipelines: Mapping[str, Pipeline]
    max_pages: Callable[[], int]
    job_timeout_s: Callable[[], float]
    budgets: Callable[[], Sequence[Budget]]
    chunk_options: Callable[[], Mapping[str, Json]]

    def pipeline(self, processor: str) -> Pipeline:
        """The one that a processor belongs to."""
        return self.pipelines[self.processors[processor].pipeline]

    def paged(self, processor: str) -> Paged:
        """The same for a processor of pages."""
        found = self.pipeline(processor)
        if not isinstance(found, Paged):
            raise Permanent(f"{processor!r} is not a processor of pages.", error_class=ErrorClass.BUG)
        return found

    @asynccontextmanager
    async def opened(self, ref: BlobRef | None) -> AsyncIterator[IO[bytes]]:
        """A private file with the blob's bytes, checked; an empty one without a blob."""
        with tempfile.TemporaryFile() as copy:
            if ref is not None:
                await asyncio.to_thread(self._copy, ref, copy)
            yield copy

    def _copy(self, ref: BlobRef, copy: IO[bytes]) -> None:
        with self.blobs().open(ref) as stored:
            copied(stored, copy)

    async def keep_part(self, tenant: str, file: IO[bytes], offset: int, size: int) -> str:
        """Store a part of a file under its sha256."""
        ref = await asyncio.to_thread(lambda: self.blobs().put(tenant, _part(file, offset, size)))
        return ref.sha256


def copied(source: IO[bytes], target: IO[bytes]) -> None:
    """Blocking; the target is at its beginning afterwards."""
    while piece := source.read(_PIECE):
        target.write(piece)
    target.flush()
    target.seek(0)


def _part(file: IO[bytes], offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)
