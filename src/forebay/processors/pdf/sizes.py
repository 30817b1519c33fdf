"""How large the pages of a chunk are."""

from __future__ import annotations

from typing import Any

from forebay.model.payload import Json
from forebay.processors.pdf.files import contents_of
from forebay.processors.pdf.pdfium import document, leaf


def run(arguments: dict[str, Any], files: list[int]) -> Json:
    """Width and height of each page in points, as a reader sees it."""
    found: list[Json] = []
    with document(contents_of(files[0])) as (handle, count):
        for index in range(count):
            with leaf(handle, index, first=arguments["first"]) as page:
                found.append([page.width, page.height])
    return found
