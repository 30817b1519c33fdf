"""Documents that mean harm or are broken, and how each may end: python -m tests.documents.hostile FOLDER writes them.

An end is an error class or COMPLETED. Where several are named, each is an honest answer; a crash of the worker, an
answer that never comes, or text that was left out without a word is none.
"""

from __future__ import annotations

import io
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pikepdf
from PIL import Image

from forebay.rules.verdict import ErrorClass
from tests.documents.written import CATALOG, FONT, ONE_PAGE, TEXT, bomb, objects, page, pdf, stream

COMPLETED = "completed"
GIB = 1 << 30
BROKEN = frozenset({ErrorClass.CORRUPTED_CONTENT, ErrorClass.INVALID_PDF})
EXHAUSTING = frozenset({ErrorClass.PARSER_TIMEOUT, ErrorClass.PARSER_MEMORY, ErrorClass.PARSER_CRASHED})
BOMB = EXHAUSTING | {ErrorClass.DECOMPRESSION_LIMIT}
NO_DOCUMENT = frozenset({ErrorClass.UNSUPPORTED_FORMAT, ErrorClass.INVALID_PDF})
SOUND = frozenset({COMPLETED})
REPAIRED = BROKEN | SOUND


class Hostile(NamedTuple):
    file_name: str
    made: Callable[[], bytes]
    ends: frozenset[str]


def sound() -> bytes:
    return pdf(objects())


def truncated() -> bytes:
    return sound()[:420]


def without_xref() -> bytes:
    whole = sound()
    return whole[: whole.index(b"xref\n")] + b"trailer\n<< /Root 1 0 R >>\n%%EOF\n"


def wrong_startxref() -> bytes:
    return pdf(objects(), startxref=7)


def garbage_tail() -> bytes:
    return sound() + bytes(range(256)) * 16


def junk_before() -> bytes:
    return b"<html><script>alert(1)</script></html>\n" + sound()


def _encrypted(user: str, owner: str) -> bytes:
    file = io.BytesIO()
    with pikepdf.open(io.BytesIO(sound())) as opened:
        opened.save(file, encryption=pikepdf.Encryption(user=user, owner=owner))
    return file.getvalue()


def user_password() -> bytes:
    return _encrypted("open sesame", "owner")


def owner_password() -> bytes:
    return _encrypted("", "owner")


def zero_pages() -> bytes:
    return pdf({1: CATALOG, 2: b"<< /Type /Pages /Kids [] /Count 0 >>"})


def lying_count() -> bytes:
    return pdf(objects(pages=b"<< /Type /Pages /Kids [3 0 R] /Count 999999999 >>"))


def million_pages() -> bytes:
    """Six levels of nodes, each with the next one ten times as its kids."""
    nodes = {
        level + 2: b"<< /Type /Pages /Kids [%b] /Count %d >>"
        % (b" ".join([b"%d 0 R" % (level + 3)] * 10), 10 ** (6 - level))
        for level in range(6)
    }
    return pdf({1: CATALOG} | nodes | {8: b"<< /Type /Page /Parent 7 0 R /MediaBox [0 0 9 9] >>"})


def flate_bomb() -> bytes:
    return pdf(objects(contents=stream(bomb(4 * GIB), b"/Filter /FlateDecode")))


def _nested(data: bytes) -> tuple[bytes, bytes]:
    """Compressed twice more: what remains of gibibytes is less than a kilobyte."""
    return zlib.compress(zlib.compress(data, 9), 9), b"/Filter [/FlateDecode /FlateDecode /FlateDecode]"


def nested_bomb() -> bytes:
    return pdf(objects(contents=stream(*_nested(bomb(4 * GIB)))))


def object_stream_bomb() -> bytes:
    return with_object_stream(*_nested(bomb(4 * GIB, beginning=b"3 0 " + page())))


def page_in_a_bomb() -> bytes:
    """The same with a sound page behind it: a reader that gives up on the first one may pass over it in silence."""
    return with_object_stream(*_nested(bomb(4 * GIB, beginning=b"3 0 " + page())), second_page=page())


def with_object_stream(data: bytes, filters: bytes = b"", *, second_page: bytes = b"") -> bytes:
    """Its first page lies in an object stream, where only a cross-reference stream can name it."""
    written = bytearray(b"%PDF-1.7\n")
    rows = {0: (0, 0, 255), 3: (2, 6, 0), 8: (0, 0, 255)}
    packed = stream(data, b"/Type /ObjStm /N 1 /First 4 " + filters)
    contents = {1: CATALOG, 2: ONE_PAGE, 4: stream(TEXT), 5: FONT, 6: packed}
    if second_page:
        contents |= {2: b"<< /Type /Pages /Kids [3 0 R 8 0 R] /Count 2 >>", 8: second_page}
    for number, content in contents.items():
        rows[number] = (1, len(written), 0)
        written += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    at = len(written)
    rows[7] = (1, at, 0)
    table = b"".join(struct.pack(">BIB", *rows[number]) for number in sorted(rows))
    written += b"7 0 obj\n%b\nendobj\n" % stream(table, b"/Type /XRef /Size 9 /W [1 4 1] /Root 1 0 R")
    return bytes(written) + b"startxref\n%d\n%%%%EOF\n" % at


def _picture(width: int, height: int, data: bytes, filters: bytes) -> bytes:
    entries = b"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8 " % (
        width,
        height,
    )
    return pdf(
        objects(
            page=page(resources=b"/XObject << /Im 5 0 R >>"),
            contents=stream(b"q 595 0 0 842 0 0 cm /Im Do Q"),
            font=stream(data, entries + filters),
        )
    )


def huge_picture() -> bytes:
    """60 000 by 60 000 pixels, all of them there once it is unpacked."""
    return _picture(60_000, 60_000, *_nested(bomb(60_000 * 60_000, block=60_000)))


def huge_png() -> bytes:
    """The same as a PNG that declares its size, and has next to no data."""
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(60_001))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def wide_page() -> bytes:
    return pdf(objects(page=page(box=b"0 0 2000000 842")))


def page_tree_loop() -> bytes:
    looped = b"<< /Type /Pages /Parent 2 0 R /Kids [2 0 R] /Count 1 >>"
    return pdf(objects(pages=b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>", page=looped))


def xref_loop() -> bytes:
    whole = pdf(objects())
    at = whole.index(b"xref\n")
    return pdf(objects(), trailer=b"/Prev %d" % at)


def deep_nesting() -> bytes:
    depth = 100_000
    return pdf(objects(font=b"[" * depth + b"]" * depth))


def deep_page_tree() -> bytes:
    """20 000 nodes, each with one kid: what calls itself for every level runs out of stack."""
    depth = 20_000
    nodes = {level + 2: b"<< /Type /Pages /Kids [%d 0 R] /Count 1 >>" % (level + 3) for level in range(depth)}
    return pdf({1: CATALOG} | nodes | {depth + 2: b"<< /Type /Page /MediaBox [0 0 595 842] >>"})


def deep_states() -> bytes:
    """A content stream that saves a million graphics states and restores none."""
    return pdf(objects(contents=stream(zlib.compress(b"q " * 1_000_000, 9), b"/Filter /FlateDecode")))


def html_tail() -> bytes:
    return sound() + b"\n<html><script>alert(1)</script></html>\n"


def zip_tail() -> bytes:
    file = io.BytesIO(sound())
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(zipfile.ZipInfo("autorun.exe"), b"MZ")
    return file.getvalue()


def png() -> bytes:
    file = io.BytesIO()
    Image.new("L", (200, 100), 255).save(file, "PNG")
    return file.getvalue()


def html() -> bytes:
    return b"<!doctype html><title>No PDF</title><p>Whatever it is named.\n"


def only_a_header() -> bytes:
    return b"%PDF-1.7\n"


def noise() -> bytes:
    return b"%PDF-1.7\n" + b"".join(zlib.crc32(bytes([at % 251, at // 251])).to_bytes(4) for at in range(4000))


KINDS = {
    "truncated": Hostile("truncated.pdf", truncated, REPAIRED),
    "without xref": Hostile("without-xref.pdf", without_xref, REPAIRED),
    "wrong startxref": Hostile("wrong-startxref.pdf", wrong_startxref, REPAIRED),
    "garbage tail": Hostile("garbage-tail.pdf", garbage_tail, REPAIRED),
    "junk before": Hostile("junk-before.pdf", junk_before, NO_DOCUMENT),
    "only a header": Hostile("only-a-header.pdf", only_a_header, BROKEN),
    "noise": Hostile("noise.pdf", noise, BROKEN),
    "user password": Hostile("user-password.pdf", user_password, frozenset({ErrorClass.ENCRYPTED})),
    "owner password": Hostile("owner-password.pdf", owner_password, SOUND),
    "zero pages": Hostile("zero-pages.pdf", zero_pages, frozenset({ErrorClass.INVALID_PDF})),
    "lying count": Hostile("lying-count.pdf", lying_count, SOUND),
    "million pages": Hostile(
        "million-pages.pdf", million_pages, frozenset({ErrorClass.TOO_MANY_PAGES}) | BROKEN | EXHAUSTING
    ),
    "flate bomb": Hostile("flate-bomb.pdf", flate_bomb, BOMB),
    "nested bomb": Hostile("nested-bomb.pdf", nested_bomb, BOMB),
    "object stream bomb": Hostile("object-stream-bomb.pdf", object_stream_bomb, BOMB | BROKEN),
    "page in a bomb": Hostile("page-in-a-bomb.pdf", page_in_a_bomb, BOMB | BROKEN),
    "huge picture": Hostile("huge-picture.pdf", huge_picture, BOMB | {ErrorClass.PAGE_TOO_LARGE}),
    "huge PNG": Hostile("huge.png", huge_png, BOMB | BROKEN | {ErrorClass.PAGE_TOO_LARGE}),
    "wide page": Hostile("wide-page.pdf", wide_page, frozenset({ErrorClass.PAGE_TOO_LARGE})),
    "page tree loop": Hostile("page-tree-loop.pdf", page_tree_loop, BROKEN | {ErrorClass.PARSER_TIMEOUT}),
    "xref loop": Hostile("xref-loop.pdf", xref_loop, REPAIRED | {ErrorClass.PARSER_TIMEOUT}),
    "deep nesting": Hostile("deep-nesting.pdf", deep_nesting, REPAIRED | EXHAUSTING),
    "deep page tree": Hostile("deep-page-tree.pdf", deep_page_tree, REPAIRED | EXHAUSTING),
    "deep states": Hostile("deep-states.pdf", deep_states, REPAIRED | BOMB),
    "HTML tail": Hostile("html-tail.pdf", html_tail, SOUND),
    "zip tail": Hostile("zip-tail.pdf", zip_tail, SOUND),
    "PNG named PDF": Hostile("picture.pdf", png, SOUND),
    "HTML named PDF": Hostile("page.pdf", html, NO_DOCUMENT),
    "PDF named text": Hostile("document.txt", sound, SOUND),
    "empty": Hostile("empty.pdf", bytes, NO_DOCUMENT),
    "dots in its name": Hostile("..\\..\\..etc..passwd.pdf", sound, SOUND),
    "hidden": Hostile(".htaccess", sound, SOUND),
    "an option as its name": Hostile("--help.pdf", sound, SOUND),
    "right to left": Hostile("invoice\u202efdp.exe.pdf", sound, SOUND),
    "newline in its name": Hostile("two\nlines\r\x1b[31m.pdf", sound, SOUND),
    "no UTF-8 in its name": Hostile("caf\udce9.pdf", sound, SOUND),
    "long name": Hostile(f"{'long' * 55}.pdf", sound, SOUND),
    "longest name": Hostile(f"{'x' * 251}.pdf", sound, SOUND),
}


def write(folder: Path) -> dict[str, Path]:
    """Every kind as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS.values():
        (folder / kind.file_name).write_bytes(kind.made())
    return {name: folder / kind.file_name for name, kind in KINDS.items()}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
