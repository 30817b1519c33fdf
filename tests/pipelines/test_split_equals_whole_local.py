"""The same with scans among the pages, through the processor that reads them: cut or whole, the result is one."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pikepdf
import pypdfium2
import pytest

from forebay import Forebay
from forebay.app.working import awork, when_idle
from forebay.processors.local import Local
from tests.pipelines.ground import pdf

WORDS = ("basin", "turbine", "harbour")


def scan(word: str) -> tuple[bytes, int, int]:
    """A small page as pixels."""
    page = pypdfium2.PdfDocument(pdf(1, f"The {word} waits here"))[0]
    picture = page.render(scale=100 / 72, grayscale=True).to_pil().crop((60, 120, 560, 260))
    return picture.tobytes(), picture.width, picture.height


def mixed() -> bytes:
    """Text, scan, scan turned by its /Rotate, text, scan."""
    made = pikepdf.open(io.BytesIO(pdf(2, "Words of page {} in its own text, enough of them to be used as they are")))
    for at, (word, rotation) in enumerate(zip(WORDS, (0, 180, 0), strict=True)):
        pixels, width, height = scan(word)
        image = made.make_stream(
            pixels,
            Type=pikepdf.Name.XObject,
            Subtype=pikepdf.Name.Image,
            Width=width,
            Height=height,
            ColorSpace=pikepdf.Name.DeviceGray,
            BitsPerComponent=8,
        )
        page = made.add_blank_page(page_size=(width * 0.72, height * 0.72))
        page.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(I=image))
        turn = "1 0 0 1 0 0" if rotation == 0 else f"-1 0 0 -1 {width * 0.72} {height * 0.72}"
        page.Contents = made.make_stream(f"q {turn} cm {width * 0.72} 0 0 {height * 0.72} 0 0 cm /I Do Q".encode())
        page.Rotate = rotation
        made.pages.insert(min(1 + at, len(made.pages) - 1), made.pages.p(len(made.pages)))
        del made.pages[-1]
    raw = io.BytesIO()
    made.save(raw, static_id=True)
    return raw.getvalue()


def result(folder: Path, raw: bytes, max_pages: int, monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.setattr(Local, "max_pages", max_pages)
    with Forebay(f"sqlite:///{folder}/{max_pages}.db", blobs=f"file://{folder}/{max_pages}") as app:
        job = app.process(io.BytesIO(raw), name="mixed.pdf")
        asyncio.run(asyncio.wait_for(awork(app, when_idle(app)), 90))
        found = app.result(job.id)
    assert isinstance(found, bytes)
    return found


@pytest.mark.slow
def test_scans_and_text_give_the_same_however_they_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = mixed()
    whole = result(tmp_path, raw, 20, monkeypatch)
    assert result(tmp_path, raw, 2, monkeypatch) == whole
    assert all(word.encode() in whole for word in WORDS)
    assert whole.count(b'"method":"ocr"') == 3
    assert whole.count(b'"method":"text"') == 2
