"""The words of a page's text layer with their boxes, in the rows that PDFium finds them in.

Two calls for a word, of its first and its last character, where one for each character would cost thrice as much.
"""

from __future__ import annotations

import ctypes
import math
import re
from array import array
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

import pypdfium2.raw as pdfium

from forebay.processors.pdf.pdfium import Leaf

SHARES: Final = 100_000
"""Boxes are whole numbers of these shares of the page, as many as are stored."""

Edges = tuple[int, int, int, int]

_HYPHEN: Final = "\ufffe"  # stands for a hyphen that ends a line, and for the line's end
_TOKEN: Final = re.compile(rf"[^\s{_HYPHEN}]+{_HYPHEN}?|[\n{_HYPHEN}]")
UNPRINTABLE: Final = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff\uffff]")
_HYPHEN_UNIT: Final = 2
_UNKNOWN: Final = 0xFFFD
_UPSIDE_DOWN: Final = 2

# With plain addresses a call costs less than half of what it does with pypdfium2's own types.
_box_of: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(
    ctypes.cast(pdfium.FPDFText_GetLooseCharBox, ctypes.c_void_p).value or 0
)


@dataclass(slots=True)
class Row:
    """Words from `start` to before `end`; `size` of its letters in points."""

    start: int
    end: int
    left: int
    top: int
    right: int
    bottom: int
    size: float
    upright: bool = True


@dataclass(slots=True)
class Words:
    """What the text layer of a page has: of each word its text and its left, top, right and bottom edge."""

    texts: list[str] = field(default_factory=list)
    boxes: list[Edges] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)


def words_of(leaf: Leaf) -> Words:
    """All words of a page, in the order of its content."""
    layer = pdfium.FPDFText_LoadPage(leaf.handle)
    found = Words()
    if not layer:
        return found
    try:
        count = pdfium.FPDFText_CountChars(layer)
        if count > 0:
            _collect(layer, leaf, found, *_text(layer, count))
    finally:
        pdfium.FPDFText_ClosePage(layer)
    return found


def _text(layer: pdfium.FPDF_TEXTPAGE, count: int) -> tuple[str, list[int] | None]:
    """The text, and for each of its characters the number that PDFium has for it, unless that is the same."""
    buffer = (ctypes.c_ushort * (count + 1))()
    written = pdfium.FPDFText_GetText(layer, 0, count, buffer)
    if written == count + 1:
        raw = bytes(memoryview(buffer).cast("B")[: 2 * count])
    else:
        unit = pdfium.FPDFText_GetUnicode
        known = ((unit(layer, index) & 0xFFFF) or _UNKNOWN for index in range(count))
        raw = array("H", (ord(_HYPHEN) if one == _HYPHEN_UNIT else one for one in known)).tobytes()
    text = raw.decode("utf-16-le", "replace")
    if len(text) == count:
        return text, None
    return text, list(accumulate((1 + (char > "\uffff") for char in text), initial=0))


def _collect(layer: pdfium.FPDF_TEXTPAGE, leaf: Leaf, found: Words, text: str, numbers: list[int] | None) -> None:  # noqa: C901, PLR0912, PLR0915 - one loop over all words: a call for each step would double its cost
    sideways, along, from_left, down, from_top = _frame(leaf)
    corners = (ctypes.c_float * 8)()
    read = memoryview(corners).cast("B").cast("f").tolist
    at_one = ctypes.addressof(corners)
    at_two = at_one + 4 * ctypes.sizeof(ctypes.c_float)
    address = ctypes.cast(layer, ctypes.c_void_p).value
    texts, boxes, rows = found.texts, found.boxes, found.rows
    odd = UNPRINTABLE.search(text) is not None
    start = 0
    row_first = 0
    for match in _TOKEN.finditer(text):
        word = match[0]
        if word in ("\n", _HYPHEN):
            if len(texts) > start:
                rows.append(_row(layer, leaf, found, start, row_first))
            start = len(texts)
            continue
        first, last = match.span()
        last -= 1
        ends = word[-1] == _HYPHEN
        if ends:
            word = word[:-1] + "-"
        if odd:
            word = UNPRINTABLE.sub("", word)
            if not word:
                continue
        if numbers is not None:
            first, last = numbers[first], numbers[last]
        _box_of(address, first, at_one)
        _box_of(address, last, at_two)
        left, top, right, bottom, left_two, top_two, right_two, bottom_two = read()
        # Comparisons take a third of the time that min and max do.
        left = left_two if left_two < left else left  # noqa: FURB136
        top = top_two if top_two > top else top  # noqa: FURB136
        right = right_two if right_two > right else right  # noqa: FURB136
        bottom = bottom_two if bottom_two < bottom else bottom  # noqa: FURB136
        if sideways:
            left, right, bottom, top = bottom, top, left, right
        try:
            one, two = int(left * along + from_left), int(right * along + from_left)
            three, four = int(top * down + from_top), int(bottom * down + from_top)
        except (OverflowError, ValueError):  # the font says that a letter is infinitely large
            one = two = three = four = 0
        if one > two:
            one, two = two, one
        if three > four:
            three, four = four, three
        if one < 0 or three < 0 or two > SHARES or four > SHARES:
            one, three = min(max(one, 0), SHARES), min(max(three, 0), SHARES)
            two, four = min(max(two, 0), SHARES), min(max(four, 0), SHARES)
        boxes.append((one, three, two, four))
        if len(texts) == start:
            row_first = first
        texts.append(word)
        if ends:
            rows.append(_row(layer, leaf, found, start, row_first))
            start = len(texts)
    if len(texts) > start:
        rows.append(_row(layer, leaf, found, start, row_first))


def _frame(leaf: Leaf) -> tuple[bool, float, float, float, float]:
    """How a page's coordinates become shares of it as shown: exchanged first or not, then each times one, plus another.

    The first pair is for the distance from the left, the second for that from the top; half a share rounds.
    """
    left, bottom, right, top = leaf.bounds
    x, y = SHARES / (right - left), SHARES / (top - bottom)
    frames = (
        (False, x, -left * x + 0.5, -y, top * y + 0.5),
        (True, y, -bottom * y + 0.5, x, -left * x + 0.5),
        (False, -x, right * x + 0.5, y, -bottom * y + 0.5),
        (True, -y, top * y + 0.5, -x, right * x + 0.5),
    )
    return frames[leaf.quarters]


def _row(layer: pdfium.FPDF_TEXTPAGE, leaf: Leaf, found: Words, start: int, first: int) -> Row:
    """The words from `start` on; `first` is the number of their first character."""
    end = len(found.boxes)
    matrix = pdfium.FS_MATRIX()
    size = pdfium.FPDFText_GetFontSize(layer, first)
    quarters = leaf.quarters
    if pdfium.FPDFText_GetMatrix(layer, first, ctypes.byref(matrix)):
        size *= math.hypot(matrix.c, matrix.d)
        if abs(matrix.b) > abs(matrix.a):
            quarters += 1 if matrix.b < 0 else 3
        elif matrix.a < 0:
            quarters += 2
    if quarters % 4 == _UPSIDE_DOWN:
        # PDFium sorts what stands on one line from the left, also where it is read from the right.
        order = sorted(range(start, end), key=lambda index: -found.boxes[index][0])
        found.texts[start:] = [found.texts[index] for index in order]
        found.boxes[start:] = [found.boxes[index] for index in order]
    lefts, tops, rights, bottoms = zip(*found.boxes[start:], strict=True)
    if not 0.0 < size < leaf.height:
        size = max(1.0, (found.boxes[start][3] - found.boxes[start][1]) * leaf.height / SHARES)
    return Row(start, end, min(lefts), min(tops), max(rights), max(bottoms), size, quarters % 4 == 0)
