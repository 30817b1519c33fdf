import hashlib
import io

import pytest

from forebay.errors import BadDocument
from forebay.model.names import LABEL_LENGTH, check_label
from forebay.pipelines import intake, sniffing

PDF = b"%PDF-1.7\n" + b"x" * 100


def looked_at(raw: bytes, name: str = "scan.pdf", max_bytes: int = 1_000_000) -> intake.Document:
    return intake.looked_at(io.BytesIO(raw), name, max_bytes=max_bytes)


def test_a_document_is_known_by_its_bytes() -> None:
    found = looked_at(PDF)
    assert found == intake.Document(hashlib.sha256(PDF).hexdigest(), len(PDF), "application/pdf", "scan.pdf")


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n....", "image/png"),
        (b"\xff\xd8\xff\xe0....", "image/jpeg"),
        (b"II*\x00....", "image/tiff"),
        (b"MM\x00*....", "image/tiff"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"GIF89a....", "image/gif"),
        (b"BM......", "image/bmp"),
    ],
)
def test_images_are_told_by_their_first_bytes_whatever_they_are_called(head: bytes, kind: str) -> None:
    assert looked_at(head, "scan.pdf").media_type == kind


@pytest.mark.parametrize(
    ("raw", "error_class", "said"),
    [
        (b"", "invalid_pdf", "It is empty."),
        (b"<html>%PDF-1.7", "invalid_pdf", "6 bytes before its %PDF-"),
        (b"PK\x03\x04....", "unsupported_format", "zip archive or an office document"),
        (b"<!DOCTYPE html><p>", "unsupported_format", "an HTML page"),
        ("Grüße".encode(), "unsupported_format", "plain text"),
        (b"\x00\xff\x00\xff" * 10, "unsupported_format", "unknown format"),
        (b"MZ\x90\x00", "unsupported_format", "a program"),
    ],
)
def test_what_is_no_document_is_refused_with_its_class(raw: bytes, error_class: str, said: str) -> None:
    with pytest.raises(BadDocument) as refused:
        looked_at(raw, "x.pdf")
    assert (refused.value.error_class, refused.value.exit_code) == (error_class, 7)
    assert said in refused.value.what
    assert refused.value.remedy


def test_a_document_above_the_bound_is_refused_before_it_is_read_to_its_end() -> None:
    class Endless(io.BytesIO):
        read_bytes = 0

        def read(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            self.read_bytes += size
            return PDF[:size].ljust(size, b"x")

    file = Endless()
    with pytest.raises(BadDocument, match="more than 5,000,000 bytes"):
        intake.looked_at(file, "scan.pdf", max_bytes=5_000_000)
    assert file.read_bytes < 7_000_000


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("scan.pdf", "scan.pdf"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\x.pdf", "x.pdf"),
        ("C:\\x.pdf", "x.pdf"),
        ("a\0b\nc.pdf", "abc.pdf"),
        ("\u202egpj.exe", "gpj.exe"),
        ("..", "document"),
        ("", "document"),
        ("/", "document"),
        ("ä" * 300, "ä" * LABEL_LENGTH),
        ("a\udcffb.pdf", "ab.pdf"),
    ],
)
def test_a_name_is_only_a_label_and_can_do_no_harm(name: str, label: str) -> None:
    assert intake.label(name) == label
    check_label("label", label)


def test_text_that_the_look_cuts_in_the_middle_of_a_character_is_still_text() -> None:
    head = ("ü" * 2000).encode()[: sniffing.HEAD_BYTES - 1]
    with pytest.raises(BadDocument, match="plain text"):
        sniffing.media_type(head)
