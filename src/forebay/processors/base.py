"""What a processor is: it turns one chunk into its result; limits, retries, reuse and tracking are the engine's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import IO, Any, NamedTuple, Protocol

from forebay.engine.context import Context
from forebay.engine.registry import SlotAt
from forebay.model.document import Page
from forebay.model.payload import Json


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


class UnderWay:
    """What a provider does for a chunk while nobody waits for it: `job` is known again by every later attempt.

    This one forgets; that of the engine is durable as soon as `begin` has returned.
    """

    def __init__(self) -> None:
        self.job: dict[str, Json] | None = None
        self.count = 0

    async def begin(self, job: dict[str, Json]) -> dict[str, Json]:
        """The provider was paid and works: say where, before anything else. What was said first counts."""
        if self.job is None:
            self.job = job
            self.count += 1
        return self.job

    async def end(self, why: str) -> None:  # noqa: ARG002 - for those who keep it
        """It came to nothing, and will not."""
        self.job = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some pages of a document as a PDF of their own; pages are counted from 1 in the document.

    `file` is open, at its beginning, and has a descriptor; it is gone when the processor returns. While a job is
    `under_way` it is empty: there is nothing to send.
    """

    document: str
    page_start: int
    page_end: int
    file: IO[bytes]
    options: Mapping[str, Json] = field(default_factory=dict)
    under_way: UnderWay = field(default_factory=UnderWay)

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


class Price(NamedTuple):
    """What a provider takes: for a chunk so many calls at least, for a page so much of other units."""

    calls: int = 1
    per_page: Mapping[str, int] = MappingProxyType({})


class Processor(Protocol):
    """`pipeline` is what it works for: `ocr` gets pages from it, `autotag` tagged PDFs.

    `version` belongs to the key of a stored result: raise it when the same pages would give another one.
    `max_pages` and `max_bytes` bound a chunk. With a `limit`, `slot` says who takes the slot: "handler" is one call
    for a chunk, "call" leaves it to `process`, by ctx.slot for each call that it makes. `pace` is None unless the work
    is done on this machine. `page_units` are the least and the most that a page may measure either way, where there is
    a bound: 72 to an inch.
    """

    name: str
    pipeline: str
    version: str
    max_pages: int
    max_bytes: int
    page_units: tuple[float, float] | None
    limit: str | None
    slot: SlotAt
    timeout_s: float
    pace: Pace | None
    price: Price

    def units(self, chunk: Chunk) -> dict[str, int] | None:
        """What the one call of slot="handler" takes of the limit: {"calls": 1} if None."""

    def checked(self, options: Mapping[str, Any]) -> dict[str, Json]:
        """The options with their defaults, in one form only, since they belong to the key; BadInput for others."""

    async def process(self, ctx: Context, chunk: Chunk) -> Sequence[Page] | bytes:
        """Of `ocr`: one page for each of the chunk's, in order, or the same as `model.document.encoded` makes of them.

        Of `autotag`: a PDF of the same pages with tags. Reschedule lets it wait, and be called again.
        """
