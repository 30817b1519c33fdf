"""Writes PDFs byte by byte, so that they can be wrong in the way that is wanted."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

CATALOG = b"<< /Type /Catalog /Pages 2 0 R >>"
ONE_PAGE = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman >>"
TEXT = b"BT /F1 12 Tf 72 720 Td (The gates were shut in time.) Tj ET"


def page(*, box: bytes = b"0 0 595 842", resources: bytes = b"/Font << /F1 5 0 R >>", parent: int = 2) -> bytes:
    return b"<< /Type /Page /Parent %d 0 R /MediaBox [%b] /Resources << %b >> /Contents 4 0 R >>" % (
        parent,
        box,
        resources,
    )


def stream(data: bytes, entries: bytes = b"") -> bytes:
    return b"<< %b /Length %d >>\nstream\n%b\nendstream" % (entries, len(data), data)


def pdf(objects: Mapping[int, bytes], *, trailer: bytes = b"", startxref: int | None = None) -> bytes:
    """A file with these objects and a right cross-reference table; `startxref` lies about where that is."""
    written = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    places = {}
    for number, content in objects.items():
        places[number] = len(written)
        written += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    at = len(written)
    size = max(objects) + 1
    written += b"xref\n0 %d\n0000000000 65535 f \n" % size
    for number in range(1, size):
        written += b"%010d 00000 n \n" % places[number] if number in places else b"0000000000 65535 f \n"
    where = at if startxref is None else startxref
    written += b"trailer\n<< /Size %d /Root 1 0 R %b >>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer, where)
    return bytes(written)


def objects(**changed: bytes) -> dict[int, bytes]:
    """The objects of a sound document of one page, some of them changed: catalog, pages, page, contents, font."""
    sound = {"catalog": CATALOG, "pages": ONE_PAGE, "page": page(), "contents": stream(TEXT), "font": FONT}
    return dict(enumerate((sound | changed).values(), 1))


def bomb(size: int, *, beginning: bytes = b"", block: int = 1 << 20) -> bytes:
    """A zlib stream of the beginning and so many zeros, a multiple of the block, made without compressing them all."""
    packer = zlib.compressobj(9)
    head = packer.compress(beginning) + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush a block stands on a byte boundary and refers to nothing before it: it can be repeated.
    again = packer.compress(bytes(block)) + packer.flush(zlib.Z_FULL_FLUSH)
    low = zlib.adler32(beginning) & 0xFFFF
    high = ((zlib.adler32(beginning) >> 16) + size * low) % 65521
    return head + again * (size // block) + b"\x03\x00" + (high << 16 | low).to_bytes(4)
