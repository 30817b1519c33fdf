"""Whether the text layer of a page says what a reader sees there, or the page has to be recognized from its pixels."""

from __future__ import annotations

import re
from typing import Final

import pypdfium2.raw as pdfium

from forebay.processors.pdf.pdfium import Leaf

_UNREADABLE: Final = re.compile("[\ufffd\ue000-\uf8ff\U000f0000-\U0010ffff]")
_MOSTLY: Final = 0.3
_FEW_LETTERS: Final = 250  # a stamp, a running title, a page number
_SCAN: Final = 0.6
_INVISIBLE: Final = pdfium.FPDF_TEXTRENDERMODE_INVISIBLE
_OBJECTS_LOOKED_AT: Final = 2000


def is_blank(leaf: Leaf) -> bool:
    """Whether nothing at all is drawn on a page."""
    return not pdfium.FPDFPage_CountObjects(leaf.handle) and not pdfium.FPDFPage_GetAnnotCount(leaf.handle)


def is_usable(leaf: Leaf, text: str) -> bool:
    """Decide by what the text is made of, and, if there is little of it, by what else is on the page."""
    letters = sum(map(str.isalnum, text[: 4 * _FEW_LETTERS]))
    bad = len(_UNREADABLE.findall(text))
    if letters + bad == 0 or bad > _MOSTLY * (letters + bad):
        return False
    if letters >= _FEW_LETTERS:
        return True
    return not _is_stamped_scan(leaf)


def _is_stamped_scan(leaf: Leaf) -> bool:
    """Whether an image covers the page, and what text there is stands visibly on top: no layer of an earlier OCR."""
    covered = 0.0
    visible_above = False
    left, bottom, right, top = leaf.bounds
    for index in range(min(_OBJECTS_LOOKED_AT, pdfium.FPDFPage_CountObjects(leaf.handle))):
        item = pdfium.FPDFPage_GetObject(leaf.handle, index)
        kind = pdfium.FPDFPageObj_GetType(item)
        if kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            edges = [pdfium.c_float() for _ in range(4)]
            if pdfium.FPDFPageObj_GetBounds(item, *edges):
                one, two, three, four = (edge.value for edge in edges)
                across = max(0.0, min(right, three) - max(left, one))
                covered += across * max(0.0, min(top, four) - max(bottom, two))
        elif kind == pdfium.FPDF_PAGEOBJ_TEXT:
            if pdfium.FPDFTextObj_GetTextRenderMode(item) == _INVISIBLE:
                return False
            visible_above = visible_above or covered > 0
    if covered < _SCAN * (right - left) * (top - bottom):
        return False
    return visible_above
