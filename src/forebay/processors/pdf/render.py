"""Draws a page in grey, upright and level, for one who reads pixels."""

from __future__ import annotations

import ctypes
import io
import os
from typing import Any, Final

import pypdfium2.raw as pdfium
from PIL import Image

from forebay.model.payload import Json
from forebay.processors.pdf import orient
from forebay.processors.pdf.files import contents_of, write
from forebay.processors.pdf.opening import MAX_PIXELS
from forebay.processors.pdf.pdfium import Leaf, document, leaf
from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass

_POINTS: Final = 72.0
_WHITE: Final = 0xFFFFFFFF
_PAPER: Final = 255


def run(arguments: dict[str, Any], files: list[int]) -> Json:
    """Write the page as a TIFF image, turned clockwise by `turn`, and then by what levels its lines, as is answered.

    Uncompressed: tesseract takes a tenth of its time to read a PGM, which it does byte by byte.
    """
    chunk, output = files
    index, first = arguments["page"], arguments.get("first", 1)
    number = first + index
    with document(contents_of(chunk)) as (handle, count):
        if not 0 <= index < count:
            raise Refused(ErrorClass.INVALID_PDF, f"There is no page {number} in {count} pages.")
        with leaf(handle, index, first=first) as page:
            drawn = picture(page, arguments["dpi"], number)
    width, height = drawn.size
    turned = drawn.rotate(-arguments.get("turn", 0), expand=True)
    small = orient.small(turned)
    angle = orient.skew(small)
    if angle:
        turned = turned.rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor=_PAPER)
        small = orient.small(turned)
    image = io.BytesIO()
    turned.save(image, "TIFF")
    write(output, image.getvalue())
    os.ftruncate(output, image.tell())
    return {
        "width": width,
        "height": height,
        "image": list(turned.size),
        "skew": angle,
        "sideways": orient.is_sideways(small),
    }


def picture(page: Leaf, dpi: float, number: int) -> Image.Image:
    """The page as a reader sees it, in shades of grey."""
    width, height = round(page.width * dpi / _POINTS) or 1, round(page.height * dpi / _POINTS) or 1
    if width * height > MAX_PIXELS:
        raise Refused(
            ErrorClass.PAGE_TOO_LARGE,
            f"Page {number} would have {width * height // 10**6} megapixels at {dpi} dpi, "
            f"{MAX_PIXELS // 10**6} are allowed. Use fewer dpi.",
        )
    _check_images(page, number)
    pixels = (ctypes.c_ubyte * (width * height))()
    bitmap = pdfium.FPDFBitmap_CreateEx(width, height, pdfium.FPDFBitmap_Gray, pixels, width)
    if not bitmap:
        raise Refused(ErrorClass.PAGE_TOO_LARGE, f"Page {number} is too large to be drawn.")
    try:
        pdfium.FPDFBitmap_FillRect(bitmap, 0, 0, width, height, _WHITE)
        # The bitmap is grey: FPDF_GRAYSCALE would turn each colour a second time, at the price of the drawing itself.
        pdfium.FPDF_RenderPageBitmap(bitmap, page.handle, 0, 0, width, height, 0, pdfium.FPDF_ANNOT)
        return Image.frombytes("L", (width, height), bytes(pixels))
    finally:
        pdfium.FPDFBitmap_Destroy(bitmap)


def _check_images(page: Leaf, number: int) -> None:
    """An image is unpacked whole, however small it is drawn."""
    width, height = ctypes.c_uint(), ctypes.c_uint()
    for index in range(pdfium.FPDFPage_CountObjects(page.handle)):
        item = pdfium.FPDFPage_GetObject(page.handle, index)
        if pdfium.FPDFPageObj_GetType(item) != pdfium.FPDF_PAGEOBJ_IMAGE:
            continue
        known = pdfium.FPDFImageObj_GetImagePixelSize(item, ctypes.byref(width), ctypes.byref(height))
        if known and width.value * height.value > MAX_PIXELS:
            raise Refused(
                ErrorClass.PAGE_TOO_LARGE,
                f"Page {number} has an image of {width.value * height.value // 10**6} megapixels, "
                f"{MAX_PIXELS // 10**6} are allowed.",
            )
