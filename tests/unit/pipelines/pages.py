"""Pages and chunks for tests of what is made of them."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterable
from typing import IO

from forebay.model.document import Block, BlockKind, Box, Line, Page, Word
from forebay.pipelines.merging import Hole, Piece, merged

SHA256 = "a" * 64
WHOLE = Box(0.0, 0.0, 1.0, 1.0)


def block(*lines: str, kind: BlockKind = BlockKind.PARAGRAPH, level: int | None = None) -> Block:
    return Block(tuple(Line(tuple(Word(word, WHOLE) for word in line.split(" "))) for line in lines), kind, level)


def page(
    text: str = "",
    *,
    processor: str = "local",
    language: str | None = None,
    confidence: float = 1.0,
    box: Box = WHOLE,
    blocks: tuple[Block, ...] | None = None,
) -> Page:
    """A page of this text, or of these blocks."""
    found = Page.of_text(text, processor=processor, version="1")
    if blocks is None:
        blocks = tuple(
            Block(tuple(Line(tuple(Word(word.text, box, confidence) for word in line.words)) for line in each.lines))
            for each in found.blocks
        )
    return dataclasses.replace(found, blocks=blocks, language=language)


def piece(page_start: int, *pages: Page, document: str = SHA256) -> Piece:
    end = page_start + len(pages) - 1
    return Piece(
        document=document, page_start=page_start, page_end=end, lines=lambda: (each.encoded() for each in pages)
    )


def hole(number: int, why: Hole) -> Piece:
    return Piece(document=SHA256, page_start=number, page_end=number, lines=why)


def split(pages: list[Page | Hole], cuts: Iterable[int] = ()) -> list[Piece]:
    """Chunks that end after the pages in `cuts`; a missing page is a chunk of its own, or one with its like."""
    chunks: list[Piece] = []
    run: list[Page] = []
    for number, each in enumerate(pages, 1):
        if isinstance(each, Page):
            run.append(each)
        elif number - 1 not in cuts and chunks and not run and chunks[-1].lines == each:
            chunks[-1] = dataclasses.replace(chunks[-1], page_end=number)
        else:
            chunks.append(hole(number, each))
        ends = number in cuts or number == len(pages) or isinstance(pages[number], Hole)
        if run and ends:
            chunks.append(piece(number - len(run) + 1, *run))
            run = []
    return chunks


def file_of(*pages: Page | Hole) -> IO[bytes]:
    """A merged result."""
    return io.BytesIO(b"".join(merged({"sha256": SHA256}, len(pages), split(list(pages)))))
