"""Reads the text layer of a PDF: the words that a simulated OCR finds, with their boxes."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import sha256
from itertools import pairwise

import pypdfium2 as pdfium
from eld import LanguageDetector

_SHARES = 1_000_000
_LINE_END = re.compile(r"\r\n|[\r\n]")
_HYPHENS = (0x02, 0xFFFE)  # what PDFium has for a hyphen and the end of its line
_WORD = re.compile(r"\S+")
_GAP = 0.6  # of a line's height, above which a new paragraph begins
_LOOKED_AT = 350  # letters, more do not change what the detector says

Box = tuple[float, float, float, float]


@dataclass
class Word:
    """`box` is left, top, right and bottom as shares of the page that a reader sees."""

    text: str
    box: Box


@dataclass
class Page:
    width: float
    height: float
    paragraphs: list[list[list[Word]]] = field(default_factory=list)
    """Each is a list of lines, each a list of words."""

    @property
    def lines(self) -> Iterator[list[Word]]:
        for paragraph in self.paragraphs:
            yield from paragraph

    @property
    def text(self) -> str:
        return "\n".join(" ".join(word.text for word in line) for line in self.lines)


class Unreadable(Exception):
    """PDFium cannot open it."""


def page_count(data: bytes) -> int:
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        raise Unreadable(str(error)) from None
    try:
        return len(document)
    finally:
        document.close()


class Reader:
    """Remembers what the last documents said, as the same ones come again and again; for one thread."""

    def __init__(self, size: int = 64) -> None:
        self._size = size
        self._known: dict[bytes, list[Page]] = {}

    def pages(self, data: bytes) -> list[Page]:
        key = sha256(data).digest()
        found = self._known.pop(key, None)
        if found is None:
            found = _pages(data)
            if len(self._known) >= self._size:
                del self._known[next(iter(self._known))]
        self._known[key] = found
        return found


def _pages(data: bytes) -> list[Page]:
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        raise Unreadable(str(error)) from None
    try:
        return [_page(document, index) for index in range(len(document))]
    finally:
        document.close()


def _page(document: pdfium.PdfDocument, index: int) -> Page:
    try:
        leaf = document[index]
    except pdfium.PdfiumError:
        return Page(612.0, 792.0)
    try:
        found = Page(*leaf.get_size())
        layer = leaf.get_textpage()
        try:
            lines = [line for line in _lines(leaf, layer) if line]
        finally:
            layer.close()
    finally:
        leaf.close()
    last: list[Word] | None = None
    for line in lines:
        if last is None or _apart(last, line):
            found.paragraphs.append([])
        found.paragraphs[-1].append(line)
        last = line
    return found


def _lines(leaf: pdfium.PdfPage, layer: pdfium.PdfTextPage) -> Iterator[list[Word]]:
    text, places = _characters(layer)
    ends = [0, *(place for match in _LINE_END.finditer(text) for place in match.span()), len(text)]
    for start, end in list(pairwise(ends))[::2]:
        yield [
            Word(match[0], box)
            for match in _WORD.finditer(text, start, end)
            if (box := _box(leaf, layer, places[match.start()], places[match.end() - 1])) is not None
        ]


def _characters(layer: pdfium.PdfTextPage) -> tuple[str, list[int]]:
    """The text in code points, and for each the number that PDFium, which counts UTF-16 units, has for it."""
    raw = pdfium.raw
    units = [raw.FPDFText_GetUnicode(layer, index) for index in range(layer.count_chars())]
    text, places = [], []
    index = 0
    while index < len(units):
        unit, at = units[index], index
        index += 1
        if 0xD800 <= unit < 0xDC00 and index < len(units) and 0xDC00 <= units[index] < 0xE000:  # noqa: PLR2004 - surrogates
            unit = 0x10000 + ((unit - 0xD800) << 10) + (units[index] - 0xDC00)
            index += 1
        if unit in _HYPHENS:
            text.append("-")
            places.append(at)
            unit = ord("\n")
        valid = unit and not 0xD800 <= unit < 0xE000 and unit <= 0x10FFFF  # noqa: PLR2004 - surrogates
        text.append(chr(unit) if valid else " ")
        places.append(at)
    return "".join(text), places


def _box(leaf: pdfium.PdfPage, layer: pdfium.PdfTextPage, first: int, last: int) -> Box | None:
    corners = []
    for index in dict.fromkeys((first, last)):
        left, bottom, right, top = layer.get_charbox(index, loose=True)
        corners += [_seen(leaf, left, bottom), _seen(leaf, right, top)]
    across, down = zip(*corners, strict=True)
    box = (_share(min(across)), _share(min(down)), _share(max(across)), _share(max(down)))
    return box if box[2] > box[0] and box[3] > box[1] else None


def _seen(leaf: pdfium.PdfPage, x: float, y: float) -> tuple[int, int]:
    """Where a point of the page lies when it is shown, turned and cropped as it says."""
    across, down = ctypes.c_int(), ctypes.c_int()
    pdfium.raw.FPDF_PageToDevice(leaf, 0, 0, _SHARES, _SHARES, 0, x, y, across, down)
    return across.value, down.value


def _share(value: int) -> float:
    return min(max(value, 0), _SHARES) / _SHARES


def _apart(above: list[Word], below: list[Word]) -> bool:
    bottom = max(word.box[3] for word in above)
    top = min(word.box[1] for word in below)
    height = bottom - min(word.box[1] for word in above)
    return not -height < top - bottom < height * _GAP


@cache
def _detector() -> LanguageDetector:
    return LanguageDetector()


def load() -> None:
    """What the first page would else wait for, and all that arrives meanwhile: no other thread runs while it loads."""
    _detector()


def language(text: str) -> tuple[str, float]:
    """The ISO 639-1 code, `und` for none, and how sure that is."""
    words = " ".join(text.split())[:_LOOKED_AT]
    found = _detector().detect(words)
    if not found.language:
        return "und", 0.0
    score = max((found.scores() or {}).values(), default=0.0)
    return str(found.language), round(min(max(float(score), 0.01), 1.0), 6)


@lru_cache(65_536)
def confidence(text: str) -> float:
    """The same for the same word, always: between 0.9 and 1."""
    return round(0.9 + int.from_bytes(sha256(text.encode()).digest()[:2]) / 65_536 / 10, 6)
