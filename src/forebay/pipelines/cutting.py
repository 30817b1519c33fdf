"""Cuts a document, or a chunk that could not be read whole, into chunks: their bytes stored, their tasks made."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import IO, Any

from forebay.engine.submission import Options
from forebay.model.payload import Json
from forebay.model.task import NewTask, Role
from forebay.pipelines.ground import Ground
from forebay.processors.base import Processor
from forebay.rules import chunks as rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is asked of a document: everything that its chunks carry on.

    With `timed` the time of their job bounds them. `chunk_options` hold for the tasks of the chunks alone.
    """

    document: str
    media_type: str
    processor: str
    options: Mapping[str, Json]
    reuse: bool = True
    timed: bool = False
    chunk_options: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> Order:
        """Read the order of a split, a merge or a step between them."""
        return cls(**payload["order"], chunk_options=payload.get("chunk_options", {}))

    @property
    def payload(self) -> dict[str, Json]:
        """Return what `of` reads."""
        order: dict[str, Json] = asdict(self)
        del order["chunk_options"]
        return {"order": order, **self.chosen}

    @property
    def chosen(self) -> dict[str, Json]:
        """Return the part of a payload that has the options of chunks; empty where none were given."""
        return {"chunk_options": dict(self.chunk_options)} if self.chunk_options else {}

    def result_key(self, pages: tuple[int, int], processor: Processor) -> str:
        return rules.result_key(
            self.document, pages, processor=processor.name, version=processor.version, options=self.options
        )


@dataclass(frozen=True, slots=True)
class Cut:
    """What a parser said of a file that it cut, and the tasks of its chunks; `lacking` are pages by what they lost."""

    page_count: int
    repaired: bool
    notes: tuple[str, ...]
    lacking: Mapping[str, list[int]]
    tasks: tuple[NewTask, ...]
    ranges: tuple[tuple[int, int], ...]

    @property
    def told(self) -> dict[str, Json]:
        """What the record of a split tells."""
        return {
            "pages": self.page_count,
            "chunks": len(self.tasks),
            "repaired": self.repaired,
            "notes": [*self.notes],
            "lacking": {what: [*numbers] for what, numbers in self.lacking.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Which pages a file begins with, how many a chunk may have, and whose tasks they become, counted from `index`.

    `looks` is False where what is remembered of these pages has just been found to be lost. With `strict` a page that
    its processor cannot take refuses the whole, before anything is spent on the others.
    """

    tenant: str
    options: Options
    first: int = 1
    depth: int = 0
    page_count: int | None = None
    max_pages: int
    index: int = 0
    looks: bool = True
    strict: bool = False


async def cut(ground: Ground, file: IO[bytes], order: Order, terms: Terms) -> Cut:
    processor = ground.processors[order.processor]
    with tempfile.TemporaryFile() as output:
        said: Any = await ground.parser().call(
            "split",
            {
                "media_type": order.media_type if terms.depth == 0 else "application/pdf",
                "max_document_pages": ground.max_pages(),
                "max_pages": terms.max_pages,
                "max_bytes": processor.max_bytes,
                "first": terms.first,
                "page_units": list(processor.page_units) if terms.strict and processor.page_units else None,
            },
            files=[file.fileno(), output.fileno()],
        )
        terms = replace(terms, page_count=terms.page_count or said["pages"])
        ranges = [(each["page_start"], each["page_end"]) for each in said["chunks"]]
        looks = order.reuse and terms.looks
        known = await asyncio.to_thread(stored, ground, order, terms.tenant, ranges) if looks else set()
        tasks = []
        for place, (each, pages) in enumerate(zip(said["chunks"], ranges, strict=True)):
            blob = await ground.keep_part(terms.tenant, output, each["offset"], each["size"])
            index = terms.index + place if terms.depth == 0 else rules.piece_index(terms.depth, pages[0])
            tasks.append(_task(ground, order, terms, pages, index=index, blob=blob, stored=pages in known))
    notes, lacking = tuple(said["notes"]), said["lacking"]
    return Cut(said["pages"], said["repaired"], notes, lacking, tuple(tasks), tuple(ranges))


def stored(ground: Ground, order: Order, tenant: str, ranges: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """The pages whose results are known from before."""
    processor = ground.processors[order.processor]
    keys = {order.result_key(pages, processor): pages for pages in ranges}
    return {keys[each.key] for each in ground.ledger().recall(tenant, list(keys))}


def _task(
    ground: Ground, order: Order, terms: Terms, pages: tuple[int, int], *, index: int, blob: str, stored: bool
) -> NewTask:
    """What is stored goes by a kind of its own: it needs no call, so it waits for no limit."""
    payload = {
        "document": order.document,
        "processor": order.processor,
        "options": dict(order.options),
        "reuse": order.reuse,
        "timed": order.timed,
        "pages": list(pages),
        "page_count": terms.page_count,
        "depth": terms.depth,
        **order.chosen,
    }
    kind = ground.pipeline(order.processor).kind("stored" if stored else order.processor)
    options = task_options(ground, order, terms.options)
    return ground.submissions().task(kind, payload, options, role=Role.CHUNK, chunk_index=index, pages=pages, blob=blob)


def task_options(ground: Ground, order: Order, options: Options) -> Options:
    """Return the options of a chunk's task: those of the job, over those of the settings, over its processor's own."""
    chosen: Any = {**options, **ground.chunk_options(), **order.chunk_options}
    return chosen  # type: ignore[no-any-return]  # names that a submission checks
