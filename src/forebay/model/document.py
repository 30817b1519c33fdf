"""What was read of a document: pages of blocks, lines and words, and the line of JSON that a page is stored as.

Offsets count Unicode code points. A word's `start` counts from the beginning of its page, a page's from the beginning
of the document: only a merge knows the latter, and the page's number, so a stored page has neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from forebay.errors import BadInput
from forebay.ids import shown

BETWEEN_WORDS = " "
BETWEEN_LINES = "\n"
BETWEEN_BLOCKS = "\n\n"
BETWEEN_PAGES = "\f"
INCOMPLETE = "part of the page may be missing: "
"""How a note begins that every output shows."""
_PLACES = 5


class Box(NamedTuple):
    """Of the page as a reader sees it, its rotation applied: from the left and from the top, in shares from 0 to 1."""

    left: float
    top: float
    right: float
    bottom: float


class Word(NamedTuple):
    """`confidence` is from 0 to 1; a text layer's own words have 1."""

    text: str
    box: Box
    confidence: float = 1.0


class Line(NamedTuple):
    words: tuple[Word, ...]


class BlockKind(StrEnum):
    """What a block is in the document's structure."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST_ITEM = "list_item"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together; `level` is a heading's, from 1."""

    lines: tuple[Line, ...]
    kind: BlockKind = BlockKind.PARAGRAPH
    level: int | None = None


class Method(StrEnum):
    """How the words of a page came about."""

    TEXT = "text"
    OCR = "ocr"
    API = "api"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page; width and height in points, as a reader sees it. `turned` is by how much its pixels were turned."""

    width: float
    height: float
    blocks: tuple[Block, ...]
    processor: str
    version: str
    method: Method
    language: str | None = None
    turned: int = 0
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def of_text(cls, text: str, *, processor: str, version: str, width: float = 595.0, height: float = 842.0) -> Page:
        """A page of which only the text is known: every word has the whole page as its box."""
        whole = Box(0.0, 0.0, 1.0, 1.0)
        blocks = tuple(
            Block(
                tuple(
                    Line(tuple(Word(word, whole) for word in line.split()))
                    for line in block.splitlines()
                    if line.split()
                )
            )
            for block in text.split(BETWEEN_BLOCKS)
            if block.split()
        )
        return cls(width=width, height=height, blocks=blocks, processor=processor, version=version, method=Method.API)

    @property
    def words(self) -> Iterator[Word]:
        return (word for block in self.blocks for line in block.lines for word in line.words)

    @property
    def text(self) -> str:
        return BETWEEN_BLOCKS.join(
            BETWEEN_LINES.join(BETWEEN_WORDS.join(word.text for word in line.words) for line in block.lines)
            for block in self.blocks
        )

    @property
    def confidence(self) -> float | None:
        """The mean of its words'; None for a page without any."""
        known = [word.confidence for word in self.words]
        return round(sum(known) / len(known), 4) if known else None

    def encoded(self) -> bytes:
        """One line of JSON, ended by a newline; the first four fields are what a merge reads of it."""
        text = self.text
        start = 0
        blocks = []
        for block in self.blocks:
            lines = []
            for line in block.lines:
                words = []
                for word in line.words:
                    words.append(
                        {
                            "text": word.text,
                            "start": start,
                            "box": rounded(word.box),
                            "confidence": round(word.confidence, 3),
                        }
                    )
                    start += len(word.text) + len(BETWEEN_WORDS)
                start += len(BETWEEN_LINES) - len(BETWEEN_WORDS)
                lines.append({"box": rounded(around(word.box for word in line.words)), "words": words})
            start += len(BETWEEN_BLOCKS) - len(BETWEEN_LINES)
            box = rounded(around(word.box for line in block.lines for word in line.words))
            level = {} if block.level is None else {"level": block.level}
            blocks.append({"kind": block.kind, **level, "box": box, "lines": lines})
        page = {
            "length": len(text),
            "word_count": sum(len(line.words) for block in self.blocks for line in block.lines),
            "confidence": self.confidence,
            "language": self.language,
            "processor": self.processor,
            "version": self.version,
            "method": self.method,
            "width": round(self.width, 2),
            "height": round(self.height, 2),
            "turned": self.turned,
            "notes": list(self.notes),
            "text": text,
            "blocks": blocks,
        }
        return (json.dumps(page, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n").encode()


def encoded(pages: Iterable[Page]) -> bytes:
    """The pages of a chunk, one line each."""
    lines = []
    for page in pages:
        if not isinstance(page, Page):
            raise BadInput(f"A processor returned {shown(page)}.", remedy="Return a list with one Page for each page.")
        lines.append(page.encoded())
    return b"".join(lines)


def around(boxes: Iterable[Box]) -> Box:
    """The smallest box that holds them all."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return Box(min(lefts), min(tops), max(rights), max(bottoms))


def rounded(box: Box) -> list[float]:
    return [round(min(1.0, max(0.0, edge)), _PLACES) for edge in box]
