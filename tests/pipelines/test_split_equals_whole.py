"""However a document is cut, its merged result is that of the whole, byte for byte."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from dataclasses import dataclass
from typing import Any

import pikepdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.pipelines.merging import Piece, merged
from forebay.processors.pdf.verbs import VERBS

ASTRAL = "\U0001d4b3\U0001f600"
CMAP = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Own def
1 begincodespacerange <00> <FF> endcodespacerange
2 beginbfchar <41> <D835DCB3> <42> <D83DDE00> endbfchar endcmap end end"""


@dataclass(frozen=True)
class PageOf:
    """A page to be drawn: words in a plain font, some in one whose letters are beyond the basic plane."""

    words: tuple[str, ...]
    rotation: int
    astral: bool
    wide: bool


PAGES = st.builds(
    PageOf,
    words=st.lists(st.text("abcdefgh ", min_size=1, max_size=12), max_size=6).map(tuple),
    rotation=st.sampled_from([0, 90, 180, 270]),
    astral=st.booleans(),
    wide=st.booleans(),
)


def drawn(pages: list[PageOf]) -> bytes:
    made = pikepdf.new()
    plain = made.make_indirect(
        pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica)
    )
    own = made.make_indirect(
        pikepdf.Dictionary(
            Type=pikepdf.Name.Font,
            Subtype=pikepdf.Name.Type1,
            BaseFont=pikepdf.Name.Helvetica,
            ToUnicode=made.make_stream(CMAP),
        )
    )
    fonts = pikepdf.Dictionary(F1=plain, F2=own)
    for page in pages:
        added = made.add_blank_page(page_size=(842, 595) if page.wide else (595, 842))
        added.Rotate = page.rotation
        added.Resources = pikepdf.Dictionary(Font=fonts)
        lines = [f"BT /F1 14 Tf 60 {500 - 30 * at} Td ({line}) Tj ET" for at, line in enumerate(page.words)]
        if page.astral:
            lines.append("BT /F2 14 Tf 60 540 Td (AB A) Tj ET")
        added.Contents = made.make_stream("\n".join(lines).encode())
    raw = io.BytesIO()
    made.save(raw, static_id=True)
    return raw.getvalue()


def cut(raw: bytes, max_pages: int, first: int = 1) -> list[tuple[int, int, bytes]]:
    with file_of(raw) as document, tempfile.TemporaryFile() as output:
        asked = {
            "media_type": "application/pdf",
            "max_document_pages": 1000,
            "max_pages": max_pages,
            "max_bytes": 1 << 30,
            "first": first,
        }
        said: Any = VERBS["split"](asked, [document.fileno(), output.fileno()])
        output.seek(0)
        whole = output.read()
    return [
        (each["page_start"], each["page_end"], whole[each["offset"] : each["offset"] + each["size"]])
        for each in said["chunks"]
    ]


def read(raw: bytes, first: int) -> list[bytes]:
    with file_of(raw) as chunk, tempfile.TemporaryFile() as output:
        said: Any = VERBS["read"]({"ocr": "never", "first": first}, [chunk.fileno(), output.fileno()])
        output.seek(0)
        whole = output.read()
    return [whole[page["offset"] : page["offset"] + page["size"]] for page in said["pages"]]


def file_of(raw: bytes) -> Any:  # noqa: ANN401 - a file with a descriptor
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by its user
    file.write(raw)
    file.flush()
    return file


def result(raw: bytes, chunks: list[tuple[int, int, bytes]]) -> bytes:
    sha256 = hashlib.sha256(raw).hexdigest()
    pieces = [
        Piece(document=sha256, page_start=first, page_end=last, lines=lambda pdf=pdf, first=first: read(pdf, first))  # type: ignore[misc]
        for first, last, pdf in chunks
    ]
    return b"".join(merged({"sha256": sha256}, max(last for _, last, _ in chunks), pieces))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(pages=st.lists(PAGES, min_size=1, max_size=9), max_pages=st.integers(1, 9))
def test_any_cut_gives_the_result_of_the_whole(pages: list[PageOf], max_pages: int) -> None:
    raw = drawn(pages)
    whole = result(raw, cut(raw, len(pages)))
    assert result(raw, cut(raw, max_pages)) == whole
    texts = [page["text"] for page in json.loads(whole)["pages"]]
    for page, text in zip(pages, texts, strict=True):
        assert (ASTRAL in text) is page.astral


@settings(max_examples=10, deadline=None)
@given(pages=st.lists(PAGES, min_size=4, max_size=8), max_pages=st.integers(1, 3))
def test_a_chunk_that_is_cut_again_gives_the_same(pages: list[PageOf], max_pages: int) -> None:
    raw = drawn(pages)
    again = [piece for first, _, chunk in cut(raw, 4) for piece in cut(chunk, max_pages, first)]
    assert result(raw, again) == result(raw, cut(raw, len(pages)))


def test_the_check_sees_a_page_that_is_counted_twice() -> None:
    """Negative control: pages numbered from the chunk's own first are not those of the whole."""
    raw = drawn([PageOf(("one",), 0, astral=False, wide=False), PageOf(("two",), 0, astral=True, wide=False)])
    chunks = cut(raw, 1)
    swapped = [(first, last, pdf) for (first, last, _), (_, _, pdf) in zip(chunks, reversed(chunks), strict=True)]
    assert result(raw, swapped) != result(raw, cut(raw, 2))


@pytest.mark.parametrize("max_pages", [1, 3])
def test_a_cut_is_deterministic(max_pages: int) -> None:
    raw = drawn([PageOf((f"page {at}",), 90 * (at % 4), astral=at % 2 == 0, wide=False) for at in range(7)])
    assert cut(raw, max_pages) == cut(raw, max_pages)
