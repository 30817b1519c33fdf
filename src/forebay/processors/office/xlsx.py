"""Makes Markdown of a workbook: each sheet that has something in it is a heading and a table."""

from __future__ import annotations

import datetime as dt
import re
import zipfile
from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final

import openpyxl

from forebay.processors.office import zips
from forebay.processors.office.tables import cell, table
from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass

MAX_CELLS: Final = 2_000_000
_SHEETS = "xl/worksheets/"
_CELL = re.compile(rb"<(?:[\w.-]+:)?c[\s/>]")
_PIECE = 1 << 20
_TAG_BYTES = 256


def markdown(raw: bytes) -> list[str]:
    opened = zips.checked(raw)
    _check_count(opened)
    book = openpyxl.load_workbook(opened, read_only=True, data_only=True, keep_links=False)
    left = MAX_CELLS
    pages = []
    for sheet in book.worksheets:
        rows = []
        for row in _rows(sheet):
            left -= 1 + len(row)
            if left < 0:
                raise _too_many()
            if row:
                rows.append(row)
        pages.append(f"# {cell(sheet.title)}\n\n{table(rows)}\n" if rows else "")
    return pages


def _check_count(raw: BytesIO) -> None:
    """By the tags alone, in a hundredth of the time: to read so many cells takes longer than a document may."""
    left = MAX_CELLS
    with zipfile.ZipFile(raw) as opened:
        for each in opened.infolist():
            if each.filename.startswith(_SHEETS) and not each.is_dir():
                for count in _counts(opened, each):
                    left -= count
                    if left < 0:
                        raise _too_many()


def _counts(opened: zipfile.ZipFile, sheet: zipfile.ZipInfo) -> Iterator[int]:
    """How many cells begin in each piece of a sheet."""
    with opened.open(sheet) as file:
        begun = b""
        while piece := file.read(_PIECE):
            text = begun + piece
            # The last tag may go on in the next piece.
            cut = text.rfind(b"<")
            begun = text[cut : cut + _TAG_BYTES] if cut >= 0 else b""
            yield len(_CELL.findall(text, 0, max(cut, 0)))


def _too_many() -> Refused:
    return Refused(ErrorClass.DECOMPRESSION_LIMIT, f"The document has more than {MAX_CELLS:,} cells.")


def _rows(sheet: Any) -> Iterator[list[str]]:  # noqa: ANN401 - of openpyxl, which ships no types
    """Without the empty cells at their ends; what a sheet says of its own size is not believed."""
    sheet.reset_dimensions()
    for values in sheet.iter_rows(values_only=True):
        row = [_said(value) for value in values]
        while row and not row[-1]:
            row.pop()
        yield row


def _said(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return f"{value:.15g}"
        case dt.datetime() if value.time() == dt.time():
            return value.date().isoformat()
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
        case _:
            return str(value)
