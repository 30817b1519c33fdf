"""A font without glyphs: what is written in it is not seen, but found, marked and copied as the text it stands for."""

from __future__ import annotations

import struct
import zlib
from typing import Final

from pikepdf import Array, Dictionary, Name, Object, Pdf

WIDTH: Final = 0.5
DESCENT: Final = -0.2
"""Advance and depth of every character, in shares of the font's size."""

_EM: Final = 1000
_LAST_CODE: Final = 0xFFFF
_RUN: Final = 100  # as many entries as one section of a character map may have


class Codes:
    """The characters of a document, numbered as they first occur."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def written(self, text: str) -> bytes:
        """The text as the hexadecimal string of a content stream."""
        codes = self._codes
        numbers = (codes.setdefault(char, min(len(codes) + 1, _LAST_CODE)) for char in text)
        return b"<%s>" % "".join([f"{number:04x}" for number in numbers]).encode()

    def meaning(self) -> bytes:
        """The character map from code to text."""
        entries = [f"<{code:04x}> <{char.encode('utf-16-be').hex()}>" for char, code in self._codes.items()]
        sections = [entries[start : start + _RUN] for start in range(0, len(entries), _RUN)]
        body = "\n".join(f"{len(part)} beginbfchar\n" + "\n".join(part) + "\nendbfchar" for part in sections)
        return (
            "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n"
            "/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def\n"
            "/CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n"
            f"1 begincodespacerange\n<0000> <ffff>\nendcodespacerange\n{body}\n"
            "endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend\n"
        ).encode()


def font(pdf: Pdf, codes: Codes) -> Object:
    """The font as an object of a document, when all that is written in it is known."""
    name = Name("/GlyphLess")
    descriptor = Dictionary(
        Type=Name.FontDescriptor,
        FontName=name,
        Flags=5,
        FontBBox=Array([0, int(DESCENT * _EM), int(WIDTH * _EM), int((1 + DESCENT) * _EM)]),
        ItalicAngle=0,
        Ascent=int((1 + DESCENT) * _EM),
        Descent=int(DESCENT * _EM),
        CapHeight=int((1 + DESCENT) * _EM),
        StemV=80,
        FontFile2=_stream(pdf, _truetype(), Length1=len(_truetype())),
    )
    descendant = Dictionary(
        Type=Name.Font,
        Subtype=Name.CIDFontType2,
        BaseFont=name,
        CIDSystemInfo=Dictionary(Registry=b"Adobe", Ordering=b"Identity", Supplement=0),
        FontDescriptor=pdf.make_indirect(descriptor),
        CIDToGIDMap=_stream(pdf, bytes(2 * (_LAST_CODE + 1))),
        DW=int(WIDTH * _EM),
    )
    return Dictionary(
        Type=Name.Font,
        Subtype=Name.Type0,
        BaseFont=name,
        Encoding=Name("/Identity-H"),
        DescendantFonts=Array([pdf.make_indirect(descendant)]),
        ToUnicode=_stream(pdf, codes.meaning()),
    )


def _stream(pdf: Pdf, data: bytes, **fields: int) -> Object:
    stream = pdf.make_stream(zlib.compress(data, 9))
    stream["/Filter"] = Name.FlateDecode
    for key, value in fields.items():
        stream[f"/{key}"] = value
    return stream


def _truetype() -> bytes:
    """A TrueType file of one glyph, a line without area: PDFium passes over turned text of glyphs without extent."""
    up, down = int((1 + DESCENT) * _EM), int(DESCENT * _EM)
    wide = int(WIDTH * _EM)
    tables = {
        b"cmap": struct.pack(">HHHHIHHH", 0, 1, 3, 0, 12, 6, 12, 0) + struct.pack(">HHH", 0, 1, 0),
        b"glyf": struct.pack(">hhhhhHHBBhhhh", 1, 0, down, wide, up, 1, 0, 1, 1, 0, wide, down, up - down),
        b"head": struct.pack(
            ">IIIIHHQQhhhhHHhhh", 0x10000, 0x10000, 0, 0x5F0F3CF5, 0, _EM, 0, 0, 0, down, wide, up, 0, 8, 2, 0, 0
        ),
        b"hhea": struct.pack(">IhhhHhhhhhhhhhhhH", 0x10000, up, down, 0, wide, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1),
        b"hmtx": struct.pack(">Hh", wide, 0),
        b"loca": struct.pack(">HH", 0, 12),
        b"maxp": struct.pack(">IHHHHHHHHHHHHHH", 0x10000, 1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0),
        b"post": struct.pack(">IIhhIIIII", 0x30000, 0, -100, 50, 1, 0, 0, 0, 0),
    }
    at = 12 + 16 * len(tables)
    directory, bodies = b"", b""
    for tag, table in tables.items():
        padded = table + bytes(-len(table) % 4)
        total = sum(struct.unpack(f">{len(padded) // 4}I", padded)) & 0xFFFFFFFF
        directory += tag + struct.pack(">III", total, at + len(bodies), len(table))
        bodies += padded
    return struct.pack(">IHHHH", 0x10000, len(tables), 128, 3, 0) + directory + bodies
