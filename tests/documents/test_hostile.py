"""The hostile documents are what they say they are: else what withstands them would prove nothing."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pikepdf
import pypdfium2
import pytest
from PIL import Image

from forebay.rules.verdict import ErrorClass
from tests.documents import hostile
from tests.documents.hostile import COMPLETED, GIB, KINDS
from tests.documents.written import bomb, page


def text(document: bytes) -> str:
    opened = pypdfium2.PdfDocument(document)
    try:
        return "".join(str(page.get_textpage().get_text_range()) for page in opened)
    finally:
        opened.close()


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_made_alike_each_time_is_small_and_says_how_it_may_end(name: str) -> None:
    kind = KINDS[name]
    made = kind.made()
    assert len(made) < 5_000_000
    assert kind.ends
    assert kind.ends <= {*ErrorClass, COMPLETED}
    if "password" not in name:
        assert kind.made() == made


def test_all_of_them_can_be_files(tmp_path: Path) -> None:
    written = hostile.write(tmp_path / "hostile")
    assert len(set(written.values())) == len(list((tmp_path / "hostile").iterdir())) == len(KINDS)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.made is hostile.sound])
def test_a_bad_name_is_all_that_is_wrong_with_it(name: str) -> None:
    assert text(KINDS[name].made()) == "The gates were shut in time."


@pytest.mark.parametrize("made", [hostile.html_tail, hostile.zip_tail, hostile.owner_password, hostile.lying_count])
def test_what_must_be_completed_can_be_read(made: Callable[[], bytes]) -> None:
    assert text(made()).startswith("The gates were shut in time.")


def test_passwords_are_needed_where_it_says_so() -> None:
    with pytest.raises(pikepdf.PasswordError):
        pikepdf.open(io.BytesIO(hostile.user_password()))
    with pikepdf.open(io.BytesIO(hostile.owner_password())) as opened:
        assert opened.is_encrypted


def test_a_bomb_is_the_stream_of_its_beginning_and_so_many_zeros() -> None:
    assert zlib.decompress(bomb(3 << 20, beginning=b"3 0 ")) == b"3 0 " + bytes(3 << 20)
    assert zlib.decompress(bomb(60_000 * 9, block=60_000)) == bytes(60_000 * 9)
    assert len(zlib.decompress(bomb(GIB // 8))) == GIB // 8


def test_bombs_of_four_gibibytes_are_in_the_documents() -> None:
    assert bomb(4 * GIB) in hostile.flate_bomb()
    packed, _ = hostile._nested(bomb(4 * GIB))
    assert zlib.decompress(zlib.decompress(packed)) == bomb(4 * GIB)
    assert packed in hostile.nested_bomb()
    assert len(hostile.nested_bomb()) < 1_000
    assert len(hostile.object_stream_bomb()) < 2_000


def test_the_million_pages_take_a_kilobyte() -> None:
    made = hostile.million_pages()
    assert len(made) < 2_000
    opened = pypdfium2.PdfDocument(made)
    try:
        assert len(opened) == 1_000_000
    finally:
        opened.close()


def test_an_object_stream_without_a_bomb_is_read() -> None:
    said = "The gates were shut in time."
    assert text(hostile.with_object_stream(b"3 0 " + page())) == said
    assert text(hostile.with_object_stream(b"3 0 " + page(), second_page=page())) == said * 2


def test_the_huge_png_declares_its_size() -> None:
    with pytest.raises(Image.DecompressionBombError, match="3600000000"):
        Image.open(io.BytesIO(hostile.huge_png()))


def test_zip_tail_is_an_archive_too() -> None:
    assert zipfile.ZipFile(io.BytesIO(hostile.zip_tail())).namelist() == ["autorun.exe"]
