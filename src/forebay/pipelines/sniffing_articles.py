"""Tells what a file is that articles can be made of: by its zip directory or its text; else it has pages or is none."""

from __future__ import annotations

import os
import struct
from typing import IO

from forebay.errors import BadDocument
from forebay.pipelines import sniffing
from forebay.processors.office.texts import encoding_of, is_html, is_markdown
from forebay.processors.office.types import DOCX, HTML, MARKDOWN, PPTX, TEXT, XLSX
from forebay.rules.verdict import ErrorClass

SUFFIXES = sniffing.SUFFIXES | {".docx", ".xlsx", ".pptx", ".html", ".htm", ".md", ".markdown", ".txt"}
"""What is looked for in a folder."""
_LOOKED_AT = 64 * 1024
_ZIP = b"PK\x03\x04"
_TYPES_OF_PARTS = b"[Content_Types].xml"
_MAIN = {b"word/document.xml": DOCX, b"xl/workbook.xml": XLSX, b"ppt/presentation.xml": PPTX}
_MARKED = (b"%!PS", b"{\\rtf")
_END = b"PK\x05\x06"
_END_BYTES = 22
_COMMENT_BYTES = 65_535
_ENTRY = b"PK\x01\x02"
_ENTRY_BYTES = 46
_DIRECTORY_BYTES = 4 << 20


def sniffed(file: IO[bytes]) -> str:
    file.seek(0)
    head = file.read(_LOOKED_AT)
    if head.startswith(_ZIP):
        found = _office(file)
    elif head.startswith((b"%PDF-", *_MARKED)):
        found = None
    else:
        found = _text(head)
    return found or _of_pages(head[: sniffing.HEAD_BYTES])


def _of_pages(head: bytes) -> str:
    try:
        return sniffing.media_type(head)
    except BadDocument as error:
        if error.error_class != ErrorClass.UNSUPPORTED_FORMAT:
            raise
    raise BadDocument(
        f"It is {sniffing.looks_like(head)}, which cannot be cut into articles.",
        remedy="Hand in a PDF, an image, DOCX, XLSX, PPTX, HTML, Markdown or text.",
        error_class=ErrorClass.UNSUPPORTED_FORMAT,
    )


def _text(head: bytes) -> str | None:
    encoding = encoding_of(head) if head else None
    if encoding is None:
        return None
    text = head.decode(encoding, "ignore")
    if not text.strip():
        raise BadDocument(
            "There is nothing but white space in it.",
            remedy="Hand in a file with something in it.",
            error_class=ErrorClass.INVALID_PDF,
        )
    if is_html(text):
        return HTML
    return MARKDOWN if is_markdown(text) else TEXT


def _office(file: IO[bytes]) -> str | None:
    names = _names(file)
    if _TYPES_OF_PARTS not in names:
        return None
    return next((kind for name, kind in _MAIN.items() if name in names), None)


def _names(file: IO[bytes]) -> set[bytes]:
    """The files that a zip's directory names; it stands at the end, and of a huge one the beginning has to do."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END_BYTES - _COMMENT_BYTES))
    tail = file.read(_END_BYTES + _COMMENT_BYTES)
    end = tail.rfind(_END)
    if end < 0 or len(tail) - end < _END_BYTES:
        return set()
    length, offset = struct.unpack_from("<II", tail, end + 12)
    file.seek(min(offset, size))
    directory = file.read(min(length, _DIRECTORY_BYTES))
    names = set()
    at = 0
    while directory.startswith(_ENTRY, at) and at + _ENTRY_BYTES <= len(directory):
        name, extra, comment = struct.unpack_from("<HHH", directory, at + 28)
        at += _ENTRY_BYTES
        names.add(directory[at : at + name])
        at += name + extra + comment
    return names
