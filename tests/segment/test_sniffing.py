"""What a file is stands in its bytes; its name is only a label."""

from __future__ import annotations

import io
import struct

import pytest

from forebay.errors import BadDocument
from forebay.pipelines import sniffing
from forebay.pipelines.sniffing_articles import sniffed
from forebay.processors.office.types import DOCX, HTML, MARKDOWN, PPTX, TEXT, XLSX
from tests.segment.written import docx, paragraph, pptx, xlsx, zipped


def kind(raw: bytes) -> str:
    return sniffed(io.BytesIO(raw))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (docx(paragraph("x")), DOCX),
        (docx(paragraph("x")) + b"", DOCX),
        (xlsx({"a": [["x"]]}), XLSX),
        (pptx(("a", ["b"])), PPTX),
        (b"<!DOCTYPE html><p>x", HTML),
        (b"  <!-- hello -->\n<?xml version='1.0'?>\n<HTML lang=de><body>", HTML),
        (b"<h1>x</h1> and more", HTML),
        ("\ufeff<html>".encode(), HTML),
        (b"# Title\n\ntext", MARKDOWN),
        (b"Title\n=====\n\ntext", MARKDOWN),
        (b"see [this](http://x.y) there", MARKDOWN),
        (b"| a | b |\n|---|---|\n", MARKDOWN),
        (b"Just **bold** words.", MARKDOWN),
        (b"Dear Sir,\n\n- one\n- two\n\nYours, #1 & <me>", TEXT),
        ("Grüße aus Köln".encode(), TEXT),
        ("Die Größe der Häuser".encode("cp1252"), TEXT),
        ("Grüße".encode("utf-16"), TEXT),
        (b"BM is no picture here", TEXT),
        (b"A text about %PDF-1.7 files.", TEXT),
        (b'{"json": 1}', TEXT),
        (b"%PDF-1.7\n", sniffing.PDF),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
    ],
)
def test_a_document_is_told_by_its_bytes(raw: bytes, expected: str) -> None:
    assert kind(raw) == expected


def test_a_character_that_the_look_cuts_through_is_no_harm() -> None:
    for more in range(4):
        assert kind(b"x" * more + "ö€😀".encode() * 20_000) == TEXT


@pytest.mark.parametrize(
    ("raw", "error_class", "said"),
    [
        (b"", "invalid_pdf", "It is empty."),
        (b" \n\t \n", "invalid_pdf", "nothing but white space"),
        (zipped({"a.txt": "x"}), "unsupported_format", "zip archive"),
        (zipped({"word/document.xml": "x"}), "unsupported_format", "zip archive"),
        (b"PK\x03\x04....", "unsupported_format", "zip archive"),
        (b"PK\x03\x04PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 9, 9, 2**31, 2**31, 0), "unsupported_format", "zip"),
        (b"{\\rtf1 text}", "unsupported_format", "an RTF document"),
        (b"%!PS-Adobe", "unsupported_format", "PostScript"),
        (b"\xd0\xcf\x11\xe0....", "unsupported_format", "old office document"),
        (b"\x00\xff\x00\xff" * 10, "unsupported_format", "unknown format"),
        (b"\x8f\x9d\x81" * 10, "unsupported_format", "unknown format"),
        (b"MZ\x90\x00", "unsupported_format", "a program"),
        (bytes(range(1, 256)), "unsupported_format", "unknown format"),
    ],
)
def test_what_is_none_is_refused_with_its_class(raw: bytes, error_class: str, said: str) -> None:
    with pytest.raises(BadDocument) as refused:
        kind(raw)
    assert refused.value.error_class == error_class
    assert said in refused.value.what
    assert refused.value.remedy


def test_what_has_no_pages_is_refused_by_those_who_read_pages_and_they_say_who_takes_it() -> None:
    with pytest.raises(BadDocument, match="neither a PDF nor an image") as refused:
        sniffing.of_pages(io.BytesIO(docx(paragraph("x"))))
    assert "pipeline `segment`" in refused.value.remedy
