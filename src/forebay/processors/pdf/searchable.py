"""Puts what was recognized on a document's pages as invisible text over them, so that they can be searched."""

from __future__ import annotations

import json
import os
import unicodedata
import zlib
from collections.abc import Iterator
from typing import Any, Final

import pikepdf
from pikepdf import Array, Dictionary, Name, Object, Page, Pdf, String

from forebay.model.document import INCOMPLETE, Method
from forebay.model.payload import Json
from forebay.processors.pdf import glyphless
from forebay.processors.pdf.opening import bounds, said, turn
from forebay.processors.pdf.refused import Refused
from forebay.processors.pdf.split import PDF, loaded
from forebay.rules.verdict import ErrorClass

_FONT: Final = Name("/GlyphLess")
_STEEPEST: Final = 0.1
_MANY: Final = 1_000_000
_NOTE: Final = 24
_UNSEEN: Final = frozenset((Method.OCR.value, Method.API.value))


def run(arguments: dict[str, Any], files: list[int]) -> Json:
    """Write the document; pages that have a text layer of their own stay as they are, those not read get a note."""
    document, lines, output = files
    source = loaded(document, arguments.get("media_type", PDF), max_pages=_MANY)
    pdf, pages = source.pdf, source.pages
    codes = glyphless.Codes()
    written = []
    for page in _pages(lines):
        number = page["number"]
        if not 1 <= number <= len(pages):
            raise Refused(ErrorClass.INVALID_PDF, f"The document has no page {number}.")
        if page.get("method") in _UNSEEN and page.get("blocks"):
            _cover(pdf, pages[number - 1], _drawn(page, pages[number - 1], codes))
            written.append(pages[number - 1])
        elif missing := page.get("missing"):
            why = f"{missing['error_class']}: {missing['error_text']}"
            _annotate(pdf, pages[number - 1], f"This page was not read. {why}")
        for note in page.get("notes", ()):
            if note.startswith(INCOMPLETE):
                _annotate(pdf, pages[number - 1], note)
    try:
        if written:
            font = pdf.make_indirect(glyphless.font(pdf, codes))
            for item in written:
                Page(item).add_resource(font, Name.Font, _FONT)
        with os.fdopen(os.dup(output), "wb") as file:
            file.truncate(0)
            pdf.save(file, static_id=True, encryption=False)
            file.flush()
    except (pikepdf.PdfError, RuntimeError, TypeError, ValueError) as error:
        raise Refused(ErrorClass.CORRUPTED_CONTENT, f"The document cannot be written: {said(error)}.") from None
    return {"size": os.fstat(output).st_size}


def _pages(lines: int) -> Iterator[dict[str, Any]]:
    """The pages of a merged result one by one: only one is held at a time."""
    with os.fdopen(os.dup(lines), "rb") as file:
        file.seek(0)
        for line in file:
            if line.startswith(b'{"number":'):
                yield json.loads(line.rstrip().rstrip(b","))


def _cover(pdf: Pdf, page: Object, text: bytes) -> None:
    """What is drawn so far may have changed the coordinates: it is put between a save and a restore."""
    content = page.get("/Contents")
    before = list(content) if isinstance(content, Array) else [] if content is None else [content]
    layer = pdf.make_stream(zlib.compress(b"\nQ\n" + text))
    layer["/Filter"] = Name.FlateDecode
    page["/Contents"] = Array([pdf.make_stream(b"q\n"), *before, layer])
    if not isinstance(page.get("/Resources"), Dictionary):
        page["/Resources"] = Dictionary()


def _annotate(pdf: Pdf, page: Object, text: str) -> None:
    """What is drawn stays as it is: viewers show the note in a corner of the page."""
    left, _, _, top = bounds(page)
    note = Dictionary(
        Type=Name.Annot,
        Subtype=Name.Text,
        Name=Name.Note,
        Rect=Array([left, top - _NOTE, left + _NOTE, top]),
        Contents=String(text),
        F=4,
    )
    before = page.get("/Annots")
    page["/Annots"] = Array([*(before if isinstance(before, Array) else ()), pdf.make_indirect(note)])


def _drawn(read: dict[str, Any], page: Object, codes: glyphless.Codes) -> bytes:
    """One string for each word, as long as its box, along the direction that it is read in."""
    place = _Place(page, read.get("turned", 0) // 90 % 4)
    parts = [b"BT 3 Tr"]
    for block in read["blocks"]:
        for line in block["lines"]:
            parts.extend(_line(line["words"], place, codes))
    parts.append(b"ET")
    return b"\n".join(parts)


def _line(words: list[dict[str, Any]], place: _Place, codes: glyphless.Codes) -> Iterator[bytes]:
    """Words of one size on one straight line: readers would take each step up or down for a line of its own."""
    boxes = [place.box(word["box"]) for word in words]
    slope, middle = _straight([((left + right) / 2, (low + high) / 2) for left, low, right, high in boxes])
    size = max(0.5, *(high - low - abs(slope) * (right - left) for left, low, right, high in boxes))
    for index, (word, (left, _, right, _)) in enumerate(zip(words, boxes, strict=True)):
        text = _visual(word["text"]) + (" " if index + 1 < len(words) else "")
        low = middle + slope * (left + right) / 2 - (0.5 + glyphless.DESCENT) * size
        stretch = 100 * max(0.1, right - left) / (max(1, len(word["text"])) * glyphless.WIDTH * size)
        yield b"%s %.3f Tf %.3f Tz %s Tm %s Tj" % (
            str(_FONT).encode(), size, stretch, place.matrix(left, low), codes.written(text),
        )  # fmt: skip


def _visual(text: str) -> str:
    """As letters follow each other on paper: readers expect those of Hebrew and Arabic from the left, too."""
    return text[::-1] if any(unicodedata.bidirectional(char) in ("R", "AL") for char in text) else text


def _straight(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Slope and height at 0 of the line that passes the points most closely."""
    count = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread > 1 else 0.0
    slope = min(_STEEPEST, max(-_STEEPEST, slope))
    return slope, mean_y - slope * mean_x


class _Place:
    """Turns the page so that what was read lies level: x along a line of print, y up, in the page's units."""

    def __init__(self, page: Object, quarters: int) -> None:
        left, bottom, right, top = bounds(page)
        across, up = right - left, top - bottom
        shown = (across, up) if turn(page) % 180 == 0 else (up, across)
        self._read = quarters
        self._width, self._height = shown if quarters % 2 == 0 else shown[::-1]
        total = (turn(page) // 90 + quarters) % 4
        self._x, self._y = ((1, 0), (0, 1), (-1, 0), (0, -1))[total], ((0, 1), (-1, 0), (0, -1), (1, 0))[total]
        self._origin = ((left, bottom), (right, bottom), (right, top), (left, top))[total]

    def box(self, shares: list[float]) -> tuple[float, float, float, float]:
        """Left, low, right and high edge of a box that is given as the page is shown."""
        left, top, right, bottom = shares
        one, two, three, four = (
            (left, top, right, bottom),
            (1 - bottom, left, 1 - top, right),
            (1 - right, 1 - bottom, 1 - left, 1 - top),
            (top, 1 - right, bottom, 1 - left),
        )[self._read]
        width, height = self._width, self._height
        return one * width, (1 - four) * height, three * width, (1 - two) * height

    def matrix(self, x: float, y: float) -> bytes:
        (a, b), (c, d), (e, f) = self._x, self._y, self._origin
        return b"%d %d %d %d %.3f %.3f" % (a, b, c, d, e + x * a + y * c, f + x * b + y * d)
