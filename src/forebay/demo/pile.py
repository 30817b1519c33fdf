"""Writes the documents of a demonstration: letters of a few pages and a book now and then, the same ones each time."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Final

import pikepdf

_A4: Final = (595, 842)
_BOOK_EVERY: Final = 9
_BOOK_PAGES: Final = 40
_MOST: Final = 6
_TEXT: Final = ("The river waits above the turbine,", "and goes through it as fast as it may.")


def page_count(number: int) -> int:
    """A book is more than one call may take."""
    return _BOOK_PAGES if number % _BOOK_EVERY == 0 else 1 + number * 5 % _MOST


def written(folder: Path, api: str, count: int) -> list[Path]:
    return [_written(folder / f"{api}-{number:03}.pdf", api, number) for number in range(1, count + 1)]


def cut(document: Path, max_pages: int) -> Iterator[bytes]:
    """As a script would do it: the same pages in files that one call may take."""
    with pikepdf.open(document) as whole:
        for first in range(0, len(whole.pages), max_pages):
            with pikepdf.new() as part:
                part.pages.extend(whole.pages[first : first + max_pages])
                yield _bytes(part)


def _bytes(pdf: pikepdf.Pdf) -> bytes:
    file = BytesIO()
    pdf.save(file, deterministic_id=True)
    return file.getvalue()


def _written(path: Path, api: str, number: int) -> Path:
    with pikepdf.new() as pdf:
        font = pdf.make_indirect(
            pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica)
        )
        for page_number in range(1, page_count(number) + 1):
            page = pdf.add_blank_page(page_size=_A4)
            page.Resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(F1=font))
            page.Contents = pdf.make_stream(_content(f"Document {number} for {api}, page {page_number}.", *_TEXT))
        pdf.save(path, deterministic_id=True)
    return path


def _content(*lines: str) -> bytes:
    shown = (f"BT /F1 14 Tf 72 {760 - 20 * row} Td ({line}) Tj ET" for row, line in enumerate(lines))
    return "\n".join(shown).encode("ascii")
