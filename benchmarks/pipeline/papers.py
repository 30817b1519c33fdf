"""The documents: letters that are one call each, and a book among every few, which is more; no two are alike."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import pikepdf

from benchmarks.pipeline.shapes import MAX_PAGES

_A4 = (595, 842)
_LETTER = 1
_BOOK_CALLS = 3
_BOOK_EVERY = 6
_TEXT = ("The river waits above the turbine,", "and goes through it as fast as it may.")


def documents(calls: int, *, first: int = 1) -> Iterator[bytes]:
    """As many as make so many calls, numbered from the first."""
    left, number = calls, first - 1
    while left:
        number += 1
        is_book = number % _BOOK_EVERY == 0 and left >= _BOOK_CALLS
        left -= _BOOK_CALLS if is_book else 1
        yield _written(number, _BOOK_CALLS * MAX_PAGES if is_book else _LETTER)


def _written(number: int, pages: int) -> bytes:
    with pikepdf.new() as pdf:
        font = pdf.make_indirect(
            pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica)
        )
        for page_number in range(1, pages + 1):
            page = pdf.add_blank_page(page_size=_A4)
            page.Resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(F1=font))
            page.Contents = pdf.make_stream(_content(f"Document {number}, page {page_number}.", *_TEXT))
        file = BytesIO()
        pdf.save(file, deterministic_id=True)
        return file.getvalue()


def _content(*lines: str) -> bytes:
    shown = (f"BT /F1 14 Tf 72 {760 - 20 * row} Td ({line}) Tj ET" for row, line in enumerate(lines))
    return "\n".join(shown).encode("ascii")
