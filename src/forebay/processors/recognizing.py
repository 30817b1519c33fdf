"""Recognizes one page: drawn, read by a tesseract of its own, and tried in other positions where little came of it."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Any, Final

from forebay.engine.signals import Permanent, Retry
from forebay.ids import printable
from forebay.model.payload import Json
from forebay.processors import limited
from forebay.processors.base import Parser
from forebay.processors.tesseract import Tesseract
from forebay.rules.verdict import ErrorClass

TIMEOUT_S: Final = 60.0
_MEMORY_MB: Final = 2048
# Upright pages have 0.9 and more, bad scans of them 0.7; upside down it is 0.3 to 0.5.
_POOR: Final = 0.65
_GOOD: Final = 0.8
_ENOUGH_WORDS: Final = 8
# What is read on end reads as well when it is turned, give or take a speck; only then its lines can be marked.
_NEARLY: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A page that is to be recognized: `index` in its chunk's file, `number` in the document, its size in points."""

    file: IO[bytes]
    index: int
    number: int
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of a page in one position."""

    line: bytes
    words: int
    confidence: float
    on_end: bool
    sideways: bool

    @property
    def worth(self) -> float:
        return self.words * self.confidence

    @property
    def is_poor(self) -> bool:
        return self.words < _ENOUGH_WORDS or self.confidence < _POOR

    @property
    def turns(self) -> tuple[int, ...]:
        """The other positions to try: none for a page that is upright, however badly it reads."""
        if self.words >= _ENOUGH_WORDS and self.on_end:
            return 270, 90
        if self.sideways and (self.words == 0 or self.confidence < _POOR):
            return 90, 270, 180
        if self.words >= _ENOUGH_WORDS and self.confidence < _POOR:
            return 180, 90, 270
        return ()


class Recognizer:
    """By one tesseract and one way of drawing; `room` is shared by all: as many run at once as there are cores."""

    def __init__(
        self,
        parser: Parser,
        room: asyncio.Semaphore,
        tesseract: Tesseract,
        *,
        languages: Sequence[str],
        dpi: int,
        processor: str,
        version: str,
    ) -> None:
        self._parser = parser
        self._room = room
        self._usual = tesseract.command(languages, dpi)
        self._careful = tesseract.command(languages, dpi, careful=True)
        self._variables = dict(tesseract.variables) | {"OMP_THREAD_LIMIT": "1"}
        self._dpi = dpi
        self._by: dict[str, Json] = {"processor": processor, "version": version}

    async def line(self, sheet: Sheet) -> bytes:
        """The page's line as it is stored."""
        try:
            best = await self._attempt(sheet, 0, self._usual)
            if best.is_poor:
                best = max(best, await self._attempt(sheet, 0, self._careful), key=lambda each: each.worth)
            for turn in best.turns:
                other = await self._attempt(sheet, turn, self._careful)
                if other.worth >= best.worth * (_NEARLY if best.on_end else 1.0):
                    best = other
                if best is other and other.confidence >= _GOOD:
                    break
        except Retry as error:
            raise Retry(f"Page {sheet.number}: {error.text}", error_class=error.error_class) from None
        return best.line

    async def _attempt(self, sheet: Sheet, turn: int, command: Sequence[str]) -> Attempt:
        with _files(3) as (picture, table, line):
            drawn = await self._call(
                "render",
                {"page": sheet.index, "dpi": self._dpi, "turn": turn, "first": sheet.number - sheet.index},
                [sheet.file, picture],
            )
            async with self._room:
                await self._run(command, picture, table)
            said = await self._call(
                "recognized",
                {
                    **self._by,
                    "width": sheet.width,
                    "height": sheet.height,
                    "pixels": [drawn["width"], drawn["height"]],
                    "image": drawn["image"],
                    "skew": drawn["skew"],
                    "turned": turn,
                    "notes": [],
                },
                [table, line],
            )
            return Attempt(
                os.pread(line.fileno(), said["size"], 0),
                said["words"],
                said["confidence"] or 0.0,
                said["on_end"],
                drawn["sideways"],
            )

    async def _run(self, command: Sequence[str], picture: IO[bytes], table: IO[bytes]) -> None:
        picture.seek(0)
        with _files(1) as (said,):
            code = await limited.run(
                command,
                stdin=picture.fileno(),
                stdout=table.fileno(),
                stderr=said.fileno(),
                timeout_s=TIMEOUT_S,
                memory_mb=_MEMORY_MB,
                variables=self._variables,
            )
            if code:
                why = printable(os.pread(said.fileno(), 500, 0).decode("utf-8", "replace").strip()) or f"code {code}"
                raise Retry(f"tesseract failed: {why}", error_class=ErrorClass.PARSER_CRASHED)

    async def _call(self, verb: str, arguments: Mapping[str, Json], files: Sequence[IO[bytes]]) -> dict[str, Any]:
        answer = await self._parser.call(verb, arguments, files=[file.fileno() for file in files])
        if not isinstance(answer, dict):
            raise Permanent(f"The parser's answer to {verb!r} is none.", error_class=ErrorClass.BUG)
        return answer


@contextmanager
def _files(count: int) -> Iterator[list[IO[bytes]]]:
    with ExitStack() as stack:
        yield [stack.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
