"""Whether the streams of a PDF can be decoded within bounds: neither a bomb nor damage may pass for an empty page."""

from __future__ import annotations

import zlib
from typing import Final

import pikepdf
from pikepdf import Name, Object, Pdf, Stream

from forebay.processors.pdf.opening import MAX_STREAM
from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass

_FLATE: Final = frozenset(("/FlateDecode", "/Fl"))
_OF_IMAGES: Final = frozenset(("/DCTDecode", "/DCT", "/JPXDecode", "/CCITTFaxDecode", "/CCF", "/JBIG2Decode"))
_STEP: Final = 4 * 1024 * 1024


def damaged(pdf: Pdf, pages: list[Object], *, first: int = 1) -> dict[int, str]:
    """Pages, counted from 0, of which only a part of the content can be decoded, each with what is wrong.

    Refused for a stream that unpacks to too much, and for a page of which nothing at all can be decoded.
    """
    troubles: dict[tuple[int, int], tuple[int, str]] = {}
    for item in pdf.objects:
        if isinstance(item, Stream):
            try:
                trouble = _trouble(item)
            except _TooMuch:
                raise _bomb(item, pages, first) from None
            if trouble is not None:
                troubles[item.objgen] = trouble
    if not troubles:
        return {}
    found = {}
    for index, page in enumerate(pages):
        bad = [troubles[part.objgen] for part in contents(page) if part.objgen in troubles]
        if bad:
            if not sum(length for length, _ in bad):
                raise Refused(
                    ErrorClass.CORRUPTED_CONTENT, f"The content of page {first + index} cannot be decoded: {bad[0][1]}."
                )
            found[index] = bad[0][1]
    return found


def contents(page: Object) -> list[Object]:
    """The streams that a page is drawn by."""
    content = page.get("/Contents")
    parts = list(content) if isinstance(content, pikepdf.Array) else [content]
    return [part for part in parts if isinstance(part, Stream)]


class _TooMuch(Exception):
    pass


def _bomb(stream: Object, pages: list[Object], first: int) -> Refused:
    owners = [
        number for number, page in enumerate(pages, first) if any(stream.objgen == c.objgen for c in contents(page))
    ]
    where = f"The content of page {owners[0]}" if owners else f"Something on pages {first} to {first + len(pages) - 1}"
    return Refused(
        ErrorClass.DECOMPRESSION_LIMIT,
        f"{where} unpacks to more than {MAX_STREAM // 1024**2} MiB; such a file is meant to do harm.",
    )


def _trouble(stream: Object) -> tuple[int, str] | None:
    """How many bytes came out before what went wrong; None if nothing did."""
    filters = _filters(stream)
    if len(filters) <= 1 and stream.get("/Subtype") == Name.Image:
        return None  # its decoder stops at the size that the image declares
    if len(filters) == 1 and filters[0] in _FLATE:
        return _inflated(stream.read_raw_bytes())
    if not filters or _OF_IMAGES.intersection(filters[:1]):
        return None
    try:
        stream.read_bytes()
    except MemoryError:
        raise _TooMuch from None
    except (pikepdf.PdfError, RuntimeError) as error:
        if "limit" in str(error):
            raise _TooMuch from None
        if _OF_IMAGES.intersection(filters):
            return None
        return 0, "its filters fail"
    return None


def _filters(stream: Object) -> list[str]:
    """What is neither a name nor a list names none, and readers take such a stream as it is."""
    value = stream.get("/Filter")
    if isinstance(value, Name):
        return [str(value)]
    return [str(item) for item in value] if isinstance(value, pikepdf.Array) else []


def _inflated(raw: bytes) -> tuple[int, str] | None:
    if not raw:
        return None
    inflater = zlib.decompressobj()
    length = 0
    rest = raw
    try:
        while rest and not inflater.eof:
            length += len(inflater.decompress(rest, _STEP))
            if length > MAX_STREAM:
                raise _TooMuch
            rest = inflater.unconsumed_tail
    except zlib.error as error:
        # A wrong checksum at the very end harms nothing.
        return None if "data check" in str(error) else (length, "its compressed data is damaged")
    return None if inflater.eof else (length, "its compressed data breaks off")
