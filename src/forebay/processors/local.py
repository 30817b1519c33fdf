"""The processor that needs nothing but this machine: a page's own text where it is of use, OCR where it is not."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from forebay.engine.context import Context
from forebay.engine.registry import SlotAt
from forebay.engine.signals import Permanent
from forebay.errors import BadInput
from forebay.ids import shown
from forebay.model.payload import Json
from forebay.processors.base import Chunk, Pace, Parser, Price
from forebay.processors.recognizing import Recognizer, Sheet
from forebay.processors.tesseract import found, languages_of
from forebay.rules.verdict import ErrorClass

OCR: Final = ("auto", "always", "never")
_DEFAULTS: Final[dict[str, Json]] = {"language": "eng+deu", "ocr": "auto", "dpi": 200}
_LEAST_DPI, _MOST_DPI = 70, 600


class Local:
    """`parsers` is called when there is work; at most `cores` pages are recognized at once, whatever their chunk."""

    name = "local"
    pipeline = "ocr"
    version = "1"
    max_pages = 20
    max_bytes = 128 * 1024 * 1024
    page_units: tuple[float, float] | None = None
    limit: str | None = None
    slot: SlotAt = "call"
    timeout_s = 3600.0
    pace: Pace | None = Pace(scan_s=2.5, text_s=0.006)
    price = Price()

    def __init__(self, parsers: Callable[[], Parser], *, cores: int | None = None) -> None:
        self._parsers = parsers
        self._cores = cores or os.cpu_count() or 1
        self._rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    def units(self, chunk: Chunk) -> dict[str, int] | None:  # noqa: ARG002 - it has no limit
        return None

    def checked(self, options: Mapping[str, Any]) -> dict[str, Json]:
        """Languages, when to recognize, and how finely to draw."""
        unknown = sorted(options.keys() - _DEFAULTS.keys())
        if unknown:
            raise BadInput(
                f"Processor 'local' has no option {shown(unknown[0])}.", remedy=f"It has {', '.join(_DEFAULTS)}."
            )
        given = _DEFAULTS | dict(options)
        if given["ocr"] not in OCR:
            raise BadInput(f"ocr is {shown(given['ocr'])}.", remedy=f"Give one of {', '.join(OCR)}.")
        dpi = given["dpi"]
        if isinstance(dpi, bool) or not isinstance(dpi, int) or not _LEAST_DPI <= dpi <= _MOST_DPI:
            raise BadInput(f"dpi is {shown(dpi)}.", remedy=f"Give a whole number from {_LEAST_DPI} to {_MOST_DPI}.")
        languages = languages_of(given["language"])
        if given["ocr"] != "never":
            found(languages)
        return given | {"language": "+".join(languages)}

    async def process(self, ctx: Context, chunk: Chunk) -> bytes:
        """One line for each page; where a page cannot be read, the error names it."""
        options = self.checked(chunk.options)
        with tempfile.TemporaryFile() as lines:
            answer = await self._parsers().call(
                "read",
                {"ocr": options["ocr"], "first": chunk.page_start},
                files=[chunk.file.fileno(), lines.fileno()],
            )
            pages: list[dict[str, Any]] = answer["pages"]  # type: ignore[assignment,call-overload,index]  # as our own verb answers
            if len(pages) != chunk.page_count:
                raise Permanent(
                    f"Pages {chunk.page_start} to {chunk.page_end} came as {len(pages)} pages.",
                    error_class=ErrorClass.CORRUPTED_CONTENT,
                )
            made = [b"" if "ocr" in page else os.pread(lines.fileno(), page["size"], page["offset"]) for page in pages]
        await self._recognize(ctx, chunk, options, pages, made)
        return b"".join(made)

    async def _recognize(
        self, ctx: Context, chunk: Chunk, options: dict[str, Json], pages: list[dict[str, Any]], made: list[bytes]
    ) -> None:
        sheets = [
            Sheet(file=chunk.file, index=at, number=chunk.page_start + at, width=page["width"], height=page["height"])
            for at, page in enumerate(pages)
            if "ocr" in page
        ]
        if not sheets:
            return
        languages = languages_of(options["language"])
        recognizer = Recognizer(
            self._parsers(),
            self._room(),
            found(languages),
            languages=languages,
            dpi=int(options["dpi"]),  # type: ignore[arg-type]  # checked
            processor=self.name,
            version=self.version,
        )
        left = iter(sheets)

        async def work(left: Iterator[Sheet]) -> None:
            for sheet in left:
                made[sheet.index] = await recognizer.line(sheet)
                ctx.progress(sum(map(bool, made)) / len(made), f"page {sheet.number}")

        # Twice the cores: while some pages are read, as many are drawn, so that no core waits when two end together.
        # Not all at once: pages stand in line in the order they come, and those of other chunks shall get their turn.
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(2 * self._cores, len(sheets))):
                    group.create_task(work(left))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def _room(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        return self._rooms.setdefault(loop, asyncio.Semaphore(self._cores))
