"""Makes a page of what tesseract found on its picture, with boxes on the page as a reader sees it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from statistics import median
from typing import Any, Final

from forebay.model.document import Block, BlockKind, Box, Line, Method, Page, Word
from forebay.model.payload import Json
from forebay.processors.pdf.files import contents_of, write
from forebay.processors.pdf.language import language_of
from forebay.processors.pdf.layout import LOWEST_LEVEL, marker_of
from forebay.processors.pdf.words import UNPRINTABLE

_WORD: Final = "5"
_FIELDS: Final = 12
_HEADING: Final = 1.4
_LEVELS: Final = ((2.2, 1), (1.7, 2))
_HEADING_LINES: Final = 3
_HEADING_WORDS: Final = 30
_LONG: Final = 3


@dataclass(frozen=True, slots=True)
class Found:
    """One word of the TSV: where it belongs to, and its box in pixels of the picture."""

    paragraph: tuple[int, int]
    line: int
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
            yield Found((block, paragraph), line, left, top, width, height, confidence, text)


def _blocks(words: list[Found], seen: Picture) -> Iterator[Block]:
    if not words:
        return
    body = median(word.height for word in words)
    last = ""
    for _, group in groupby(words, key=lambda word: word.paragraph):
        lines = [list(line) for _, line in groupby(group, key=lambda word: word.line)]
        for item in _items(lines, last):
            marker = marker_of(item[0][0].text, len(item[0]), last)
            last = marker or last
            kind = BlockKind.LIST_ITEM if marker else BlockKind.PARAGRAPH
            level = _level(item, body)
            yield Block(
                tuple(Line(tuple(Word(one.text, seen.box(one), one.confidence) for one in line)) for line in item),
                BlockKind.HEADING if level else kind,
                level,
            )


def _items(lines: list[list[Found]], last: str) -> Iterator[list[list[Found]]]:
    """A paragraph, cut before each line that a marker begins."""
    item: list[list[Found]] = []
    for line in lines:
        marker = marker_of(line[0].text, len(line), last)
        if marker and item:
            yield item
            item = []
        last = marker or last
        item.append(line)
    yield item


def _level(lines: list[list[Found]], body: float) -> int | None:
    words: Iterable[Found] = [word for line in lines for word in line]
    heights = [word.height for word in words]
    ratio = median(heights) / max(1.0, body)
    if ratio < _HEADING or len(lines) > _HEADING_LINES or len(heights) > _HEADING_WORDS:
        return None
    if sum(sum(map(str.isalpha, word.text)) for word in words) < _LONG:
        return None
    return next((level for least, level in _LEVELS if ratio >= least), LOWEST_LEVEL)
