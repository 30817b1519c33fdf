"""A chunk's pages by PDFium's raw interface, with the geometry that its coordinates are turned by."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import pypdfium2.raw as pdfium

from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass


@dataclass(frozen=True, slots=True)
class Leaf:
    """One loaded page; width and height as a reader sees it, `quarters` by how many right angles it is turned."""

    handle: pdfium.FPDF_PAGE
    width: float
    height: float
    quarters: int
    bounds: tuple[float, float, float, float]


@contextmanager
def document(data: bytes) -> Iterator[tuple[pdfium.FPDF_DOCUMENT, int]]:
    """The document in these bytes, and how many pages it has."""
    _ready()
    handle = pdfium.FPDF_LoadMemDocument64(data, len(data), None)
    if not handle:
        raise Refused(ErrorClass.CORRUPTED_CONTENT, "PDFium cannot open the document.")
    try:
        yield handle, pdfium.FPDF_GetPageCount(handle)
    finally:
        pdfium.FPDF_CloseDocument(handle)


@contextmanager
def leaf(handle: pdfium.FPDF_DOCUMENT, index: int, *, first: int = 1) -> Iterator[Leaf]:
    """A page, counted from 0; `first` is what the first one is called in errors."""
    page = pdfium.FPDF_LoadPage(handle, index)
    if not page:
        raise Refused(ErrorClass.CORRUPTED_CONTENT, f"Page {first + index} cannot be loaded.")
    try:
        box = pdfium.FS_RECTF()
        width, height = pdfium.FPDF_GetPageWidthF(page), pdfium.FPDF_GetPageHeightF(page)
        known = pdfium.FPDF_GetPageBoundingBox(page, ctypes.byref(box))
        if not known or box.right <= box.left or box.top <= box.bottom or width <= 0 or height <= 0:
            raise Refused(ErrorClass.CORRUPTED_CONTENT, f"Page {first + index} has no size.")
        yield Leaf(
            page, width, height, pdfium.FPDFPage_GetRotation(page) % 4, (box.left, box.bottom, box.right, box.top)
        )
    finally:
        pdfium.FPDF_ClosePage(page)


@cache
def _ready() -> None:
    pdfium.FPDF_InitLibrary()
