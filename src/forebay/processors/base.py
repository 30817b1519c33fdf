"""What a processor is: it turns one chunk into pages; limits, retries, reuse and tracking are the engine's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple, Protocol

from forebay.engine.context import Context
from forebay.engine.registry import SlotAt
from forebay.model.document import Page
from forebay.model.payload import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some pages of a document as a PDF of their own; pages are counted from 1 in the document.

    `file` is open, at its beginning, and has a descriptor; it is gone when the processor returns.
    """

    document: str
    page_start: int
    page_end: int
    file: IO[bytes]
    options: Mapping[str, Json] = field(default_factory=dict)

    @property
    def page_count(self) -> int:
        return self.page_end - self.page_start + 1

    def read(self) -> bytes:
        self.file.seek(0)
        return self.file.read()


class Pace(NamedTuple):
    """Seconds of a core that a page takes: one that has to be recognized, and one whose own text is read."""

    scan_s: float
    text_s: float


class Processor(Protocol):
    """`version` belongs to the key of a stored result: raise it when the same pages would give other words.

    `max_pages` and `max_bytes` bound a chunk. With a `limit`, `slot` says who takes the slot: "handler" is one call
    for a chunk, "call" leaves it to `process`, by ctx.slot for each call that it makes. `pace` is None unless the work
    is done on this machine.
    """

    name: str
    version: str
    max_pages: int
    max_bytes: int
    limit: str | None
    slot: SlotAt
    timeout_s: float
    pace: Pace | None

    def units(self, chunk: Chunk) -> dict[str, int] | None:
        """What the one call of slot="handler" takes of the limit: {"calls": 1} if None."""

    def checked(self, options: Mapping[str, Any]) -> dict[str, Json]:
        """The options with their defaults, in one form only, since they belong to the key; BadInput for others."""

    async def process(self, ctx: Context, chunk: Chunk) -> Sequence[Page] | bytes:
        """One page for each of the chunk's, in order, or the same as `model.document.encoded` makes of them."""
