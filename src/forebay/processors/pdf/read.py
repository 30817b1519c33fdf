"""Reads the text layer of a chunk's pages, and says which of them have none that is of use."""

from __future__ import annotations

import os
from typing import Any

from forebay.model.document import INCOMPLETE
from forebay.model.payload import Json
from forebay.processors.pdf import layout, line
from forebay.processors.pdf.files import contents_of, write
from forebay.processors.pdf.language import language_of
from forebay.processors.pdf.opening import opened
from forebay.processors.pdf.pdfium import Leaf, document, leaf
from forebay.processors.pdf.streams import damaged
from forebay.processors.pdf.usable import is_blank, is_usable
from forebay.processors.pdf.words import words_of

NAME = "local"
VERSION = "1"
_MANY = 100_000


def run(arguments: dict[str, Any], files: list[int]) -> Json:
    """Write one line for each page that was read; the others are to be recognized."""
    chunk, output = files
    data = contents_of(chunk)
    first = arguments.get("first", 1)
    source = opened(chunk, max_pages=_MANY, first=first)
    troubles = damaged(source.pdf, source.pages, first=first)
    pages: list[Json] = []
    lines: list[bytes] = []
    offset = 0
    with document(data) as (handle, count):
        for index in range(count):
            with leaf(handle, index, first=first) as page:
                made = page_line(page, arguments["ocr"], troubles.get(index))
                if made is None:
                    pages.append({"ocr": True, "width": page.width, "height": page.height})
                else:
                    pages.append({"offset": offset, "size": len(made)})
                    lines.append(made)
                    offset += len(made)
    write(output, b"".join(lines))
    os.ftruncate(output, offset)
    return {"pages": pages}


def page_line(page: Leaf, ocr: str, trouble: str | None) -> bytes | None:
    """The line of a page as it is stored; None for one that has to be recognized."""
    if ocr == "always" and not is_blank(page):
        return None
    words = words_of(page)
    parts = layout.parts(words, page.width, page.height)
    text = line.text_of(words, parts)
    if ocr == "auto" and not is_usable(page, text) and not is_blank(page):
        return None
    return line.encoded(
        words,
        parts,
        text=text,
        size=(page.width, page.height),
        language=language_of(text),
        processor=NAME,
        version=VERSION,
        notes=[] if trouble is None else [INCOMPLETE + trouble],
    )
