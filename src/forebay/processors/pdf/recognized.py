"""Makes a page of what tesseract found on its picture, with boxes on the page as a reader sees it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from statistics import median
from typing import Any, Final

from forebay.model.document import Block, BlockKind, Box, Line, Method, Page, Word
from forebay.model.payload import Json
from forebay.processors.pdf import layout
from forebay.processors.pdf.files import contents_of, write
from forebay.processors.pdf.language import language_of
from forebay.processors.pdf.words import UNPRINTABLE, Row

_WORD: Final = "5"
_FIELDS: Final = 12
_LETTERS: Final = 0.72  # how high most words are, of the size of their print
_SAME_SIZE: Final = (0.7, 1.3)
_HEADING: Final = 1.3
_LONG: Final = 3
_BULLET: Final = "•"
_MISREAD: Final = frozenset(("¢", "«", "»", "°", "©", "®", "e", "o", "¤"))  # as bullets come out


@dataclass(frozen=True, slots=True)
class Found:
    """One word of the TSV: its block, its paragraph and line in that, and its box in pixels of the picture."""

    block: int
    line: tuple[int, int]
    left: int
    top: int
    width: int
    height: int
    confidence: float
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """How a picture came from a page of so many pixels: turned clockwise, then levelled counter-clockwise."""

    page: tuple[int, int]
    size: tuple[int, int]
    turn: int = 0
    skew: float = 0.0
    angle: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        radians = math.radians(self.skew)
        object.__setattr__(self, "angle", (math.cos(radians), math.sin(radians)))

    def box(self, found: Found) -> Box:
        """Of the page as it is shown: around the word's own box turned back."""
        edges = (found.left, found.left + found.width), (found.top, found.top + found.height)
        points = [self._back(x, y) for x in edges[0] for y in edges[1]]
        across, down = [x for x, _ in points], [y for _, y in points]
        return Box(min(across), min(down), max(across), max(down))

    def _back(self, x: float, y: float) -> tuple[float, float]:
        width, height = self.page if self.turn % 180 == 0 else self.page[::-1]
        cosine, sine = self.angle
        from_x, from_y = x - self.size[0] / 2, y - self.size[1] / 2
        across = (from_x * cosine - from_y * sine + width / 2) / width
        down = (from_x * sine + from_y * cosine + height / 2) / height
        turns = {0: (across, down), 90: (down, 1 - across), 180: (1 - across, 1 - down), 270: (1 - down, across)}
        return turns[self.turn]


def run(arguments: dict[str, Any], files: list[int]) -> Json:
    """Write the page's line; the answer says how sure the words are, and whether they stand on end."""
    table, output = files
    words = list(_words(contents_of(table).decode("utf-8", "replace")))
    pixels = tuple(arguments["pixels"])
    seen = Picture(
        pixels, tuple(arguments.get("image", pixels)), arguments["turned"], float(arguments.get("skew", 0.0))
    )
    blocks = tuple(_blocks(words, seen))
    page = Page(
        width=arguments["width"],
        height=arguments["height"],
        blocks=blocks,
        processor=arguments["processor"],
        version=arguments["version"],
        method=Method.OCR,
        turned=arguments["turned"],
        notes=tuple(arguments["notes"]),
        language=language_of(" ".join(word.text for word in words)),
    )
    line = page.encoded()
    write(output, line)
    os.ftruncate(output, len(line))
    long = [word for word in words if len(word.text) >= _LONG]
    on_end = sum(word.height > word.width for word in long)
    return {
        "size": len(line),
        "words": len(words),
        "confidence": page.confidence,
        "on_end": len(long) > 0 and 2 * on_end > len(long),
    }


def _words(table: str) -> Iterator[Found]:
    for row in table.splitlines():
        fields = row.split("\t", _FIELDS - 1)
        if len(fields) != _FIELDS or fields[0] != _WORD:
            continue
        text = UNPRINTABLE.sub("", "".join(fields[11].split()))
        if text:
            block, paragraph, line, _, left, top, width, height = map(int, fields[2:10])
            confidence = min(1.0, max(0.0, float(fields[10]) / 100))
            yield Found(block, (paragraph, line), left, top, width, height, confidence, text)


def _blocks(words: list[Found], seen: Picture) -> Iterator[Block]:
    """Tesseract's own blocks, which are columns or parts of them, in paragraphs by the same rules as a text layer."""
    body = median([word.height for word in words]) / _LETTERS if words else 1.0
    for _, group in groupby(words, key=lambda word: word.block):
        found = list(group)
        rows = list(_rows(found, body))
        texts = [_BULLET if word.text in _MISREAD else word.text for word in found]
        for part in layout.blocks(rows, texts, body, (1.0, 1.0), heading=_HEADING):
            if part.kind is BlockKind.LIST_ITEM and texts[part.rows[0].start] == _BULLET:
                found[part.rows[0].start] = replace(found[part.rows[0].start], text=_BULLET)
            lines = (found[row.start : row.end] for row in part.rows)
            yield Block(
                tuple(Line(tuple(Word(one.text, seen.box(one), one.confidence) for one in line)) for line in lines),
                part.kind,
                part.level,
            )


def _rows(words: list[Found], body: float) -> Iterator[Row]:
    """Lines as rows in pixels; heights differ from line to line, by the letters that are in it, where sizes do not."""
    start = 0
    for _, group in groupby(words, key=lambda word: word.line):
        line = list(group)
        size = median([word.height for word in line]) / _LETTERS
        least, most = _SAME_SIZE
        yield Row(
            start,
            start + len(line),
            min(word.left for word in line),
            min(word.top for word in line),
            max(word.left + word.width for word in line),
            max(word.top + word.height for word in line),
            body if least * body < size < most * body else max(1.0, size),
        )
        start += len(line)
