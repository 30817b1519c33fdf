"""What the pages of a damaged document draw, and is not in the file any more."""

from __future__ import annotations

import re
from typing import Final

import pikepdf
from pikepdf import Dictionary, Object

from forebay.processors.pdf.streams import contents

_DRAWN: Final = re.compile(rb"/([^\s/<>\[\](){}%]+)\s+Do\b")


def lost(pages: list[Object], first: int) -> dict[str, list[int]]:
    """Pages, counted from `first`, by what they lack; one without any content may have been empty before."""
    found: dict[str, list[int]] = {}
    for number, page in enumerate(pages, first):
        lacks = _lacks(page)
        if lacks is not None:
            found.setdefault(lacks, []).append(number)
    return found


def _lacks(page: Object) -> str | None:
    parts = contents(page)
    if not parts:
        return "it has no content, and the document is damaged"
    try:
        drawn = {name for part in parts for name in _DRAWN.findall(part.read_bytes())}
    except (pikepdf.PdfError, RuntimeError, MemoryError):
        return None  # whoever reads the page finds out, and says so
    resources = page.get("/Resources")
    there = resources.get("/XObject") if isinstance(resources, Dictionary) else None
    names = {name[1:].encode() for name in there.keys()} if isinstance(there, Dictionary) else set()  # noqa: SIM118 - no mapping of Python's
    return "an image of it is lost, since the document is damaged" if drawn - names else None
