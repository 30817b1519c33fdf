from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pikepdf
import pypdfium2
import pytest
from PIL import Image

from examples.documents.make import OFFICE, SAMPLES, make
from examples.documents.recall import recall

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "documents" / "make.py"
PAGE_COUNTS = {
    "text": 3,
    "scan-noise": 1,
    "scan-skew": 2,
    "scan-150dpi": 1,
    "scan-columns": 1,
    "scan-german": 1,
    "scan-rotated": 1,
    "scan-turned": 1,
    "mixed": 4,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    make(folder)
    return folder


def truth(folder: Path, name: str) -> str:
    return (folder / f"{name}.truth.txt").read_text(encoding="utf-8")


def text_layers(document: Path) -> list[str]:
    opened = pypdfium2.PdfDocument(document)
    try:
        return [page.get_textpage().get_text_range() for page in opened]
    finally:
        opened.close()


@pytest.mark.slow
def test_the_script_makes_the_same_documents_each_time(folder: Path, tmp_path: Path) -> None:
    said = subprocess.check_output([sys.executable, "-W", "error", str(SCRIPT), str(tmp_path)], cwd=tmp_path, text=True)
    assert said.splitlines() == [str(tmp_path / name) for name in (*OFFICE, *(f"{name}.pdf" for name in SAMPLES))]
    files = sorted(file.name for file in folder.iterdir())
    assert files == sorted([*OFFICE, *(f"{name}{suffix}" for name in SAMPLES for suffix in (".pdf", ".truth.txt"))])
    assert [name for name in files if (folder / name).read_bytes() != (tmp_path / name).read_bytes()] == []


@pytest.mark.parametrize("name", SAMPLES)
def test_a_document_is_small_and_has_a_truth_for_every_page(name: str, folder: Path) -> None:
    document = folder / f"{name}.pdf"
    assert document.stat().st_size < 700_000
    with pikepdf.open(document) as pdf:
        assert len(pdf.pages) == len(truth(folder, name).split("\f")) == PAGE_COUNTS[name]
        assert pdf.check_pdf_syntax() == []


def test_text_pages_have_a_layer_with_every_word_and_scans_none(folder: Path) -> None:
    for name in SAMPLES:
        layers = text_layers(folder / f"{name}.pdf")
        for number, (layer, page_truth) in enumerate(zip(layers, truth(folder, name).split("\f"), strict=True)):
            is_text = name == "text" or (name == "mixed" and number % 2 == 0)
            assert recall(page_truth, layer) == (1.0 if is_text else 0.0)


@pytest.mark.parametrize(("name", "language"), [("scan-german", "Weißgerber"), ("text", "Größenau")])
def test_umlauts_are_in_the_truth(name: str, language: str, folder: Path) -> None:
    assert language in truth(folder, name)
    assert "# " not in truth(folder, name)


def ink(document: Path) -> tuple[tuple[int, int], list[int]]:
    """The size of the first page as a viewer shows it, and how dark its left, upper, right and lower edges are."""
    opened = pypdfium2.PdfDocument(document)
    try:
        image: Image.Image = opened[0].render(scale=0.5, grayscale=True).to_pil().convert("L").point(lambda v: 255 - v)
    finally:
        opened.close()
    width, height = image.size
    sides = [(0, 0, width // 4, height), (0, 0, width, height // 4)]
    sides += [(width * 3 // 4, 0, width, height), (0, height * 3 // 4, width, height)]
    return image.size, [sum(image.crop(side).tobytes()) // 1000 for side in sides]


def test_rotated_is_upright_in_a_viewer_and_turned_lies_on_its_side(folder: Path) -> None:
    (width, height), (left, upper, right, lower) = ink(folder / "scan-rotated.pdf")
    assert width < height
    assert upper > 4 * lower
    assert left > right
    (width, height), (left, upper, right, lower) = ink(folder / "scan-turned.pdf")
    assert width > height
    assert right > 4 * left


def test_scans_have_the_resolution_they_are_named_for(folder: Path) -> None:
    for name, width in (("scan-150dpi", 1240), ("scan-noise", 1653)):
        with pikepdf.open(folder / f"{name}.pdf") as pdf:
            (picture,) = pdf.pages[0].get_images().values()
            assert abs(int(picture.Width) - width) <= 1


def test_recall_counts_every_word_as_often_as_it_stands_there() -> None:
    assert recall("The sea, the sea!", "the sea (the) The sea") == 1.0
    assert recall("sea sea sea sea", "sea") == 0.25
    assert recall("The sea", "the sea") == 0.5
    assert recall("„Größe“ – und", "Grösse und") == 0.5  # noqa: RUF001 - as in a German text
    assert recall("", "anything") == 1.0
    assert recall("anything", "") == 0.0
