"""The verb that makes Markdown of a document, whatever it is, and says where its pages begin."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from itertools import accumulate
from typing import Any, Final

from forebay.model.payload import Json
from forebay.processors.office.links import without_unsafe_links
from forebay.processors.office.types import DOCX, HTML, MARKDOWN, PPTX, TEXT, XLSX
from forebay.processors.pdf.files import contents_of, write
from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass

MAX_BYTES: Final = 64 * 1024 * 1024
_BY: Final = {
    DOCX: ("docx", "markdown"),
    XLSX: ("xlsx", "markdown"),
    PPTX: ("pptx", "markdown"),
    HTML: ("html", "markdown"),
    MARKDOWN: ("plain", "markdown"),
    TEXT: ("plain", "text"),
}
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
PAGED: Final = frozenset({PPTX, XLSX})
"""Of these a slide or a sheet is a page, also if there is only one."""


def run(arguments: dict[str, Any], files: list[int]) -> Json:
    """Writes the Markdown of all pages, one after the other; `starts` has the character that each begins with."""
    document, output = files
    pages = _pages(arguments["media_type"], contents_of(document))
    parts = [_ended(page) for page in pages]
    if sum(map(len, parts)) > MAX_BYTES:
        raise _too_long()
    text, starts = without_unsafe_links("".join(parts), [*accumulate(map(len, parts), initial=0)][:-1])
    raw = text.encode("utf-8", "replace")
    if len(raw) > MAX_BYTES:
        raise _too_long()
    write(output, raw)
    if not raw.strip():
        raise Refused(ErrorClass.CORRUPTED_CONTENT, "There is no text in the document.")
    return {"starts": [*starts], "paged": len(starts) > 1 or arguments["media_type"] in PAGED}


def _too_long() -> Refused:
    return Refused(ErrorClass.DECOMPRESSION_LIMIT, f"The document's text has more than {MAX_BYTES:,} bytes.")


def _pages(media_type: str, raw: bytes) -> list[str]:
    module, name = _BY[media_type]
    convert: Callable[[bytes], list[str]] = getattr(import_module(f"forebay.processors.office.{module}"), name)
    try:
        return convert(raw)
    except (Refused, MemoryError):
        raise
    except RecursionError:
        raise Refused(ErrorClass.DECOMPRESSION_LIMIT, "The document nests too deeply.") from None
    except Exception as error:  # noqa: BLE001 - whatever a library says of bytes that a stranger wrote
        raise Refused(ErrorClass.CORRUPTED_CONTENT, f"The document cannot be read: {type(error).__name__}.") from None


def _ended(page: str) -> str:
    """So that the next page begins a block of its own; without what no store and no terminal should get."""
    text = _CONTROL.sub("", page).strip("\n")
    return f"{text}\n\n" if text.strip() else ""
