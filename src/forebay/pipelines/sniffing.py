"""Tells what a file is by its first bytes; its name is only a label."""

from __future__ import annotations

from typing import IO

from forebay.errors import BadDocument
from forebay.rules.verdict import ErrorClass

HEAD_BYTES = 1024
PDF = "application/pdf"
_PDF_MARK = b"%PDF-"
_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)
_OTHERS = (
    (b"PK\x03\x04", "a zip archive or an office document"),
    (b"\xd0\xcf\x11\xe0", "an old office document"),
    (b"{\\rtf", "an RTF document"),
    (b"%!PS", "PostScript"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"MZ", "a program"),
    (b"\x7fELF", "a program"),
)
SUFFIXES = frozenset({".pdf", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".gif", ".bmp", ".webp"})
"""What is looked for in a folder; a file that is named itself may be called as it likes."""


def of_pages(file: IO[bytes]) -> str:
    """The same by the beginning of a file."""
    file.seek(0)
    return media_type(file.read(HEAD_BYTES))


def media_type(head: bytes) -> str:
    """Of a document that can be read; BadDocument for any other."""
    if not head:
        raise BadDocument(
            "It is empty.", remedy="Hand in a file with something in it.", error_class=ErrorClass.INVALID_PDF
        )
    if head.startswith(_PDF_MARK):
        return PDF
    for mark, kind in _IMAGES:
        if head.startswith(mark):
            return kind
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    before = head.find(_PDF_MARK)
    if before > 0:
        raise BadDocument(
            f"There are {before} bytes before its %PDF-.",
            remedy="It may be something else as well: export it again, or cut them off.",
            error_class=ErrorClass.INVALID_PDF,
        )
    raise BadDocument(
        f"It is {looks_like(head)}, neither a PDF nor an image.",
        remedy="Convert it to PDF and hand that in; texts and office documents are for the pipeline `segment`.",
        error_class=ErrorClass.UNSUPPORTED_FORMAT,
    )


def looks_like(head: bytes) -> str:
    """What to call it to a person."""
    for mark, name in _OTHERS:
        if head.startswith(mark):
            return name
    start = head.lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "an HTML page"
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # A character that the end of the look cuts through does not make text of it less.
        if error.start < len(head) - 4:
            return "of an unknown format"
    return "of an unknown format" if b"\0" in head else "plain text"
