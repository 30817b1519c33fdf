"""One command turns the documents that come with Forebay into what they say, in every format."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pypdfium2
import pytest

from examples.documents.make import SAMPLES, make
from examples.documents.recall import recall

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # the first of them waits for the run over all
SHIPPED = Path(__file__).resolve().parents[2] / "examples" / "documents"
LEAST = dict.fromkeys(SAMPLES, 0.99) | {"scan-german": 0.97, "mixed": 0.97}


@pytest.fixture(scope="module")
def truths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("truths")
    make(folder)
    return folder


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outputs")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
    words = ["run", str(SHIPPED), "--out", str(folder), "--format", "md,txt,json,pdf"]
    subprocess.run(
        [sys.executable, "-m", "forebay", *words],
        env=kept | {"FOREBAY_HOME": str(folder / "home")},
        check=True,
        capture_output=True,
        timeout=240,
    )
    return folder


def test_the_shipped_documents_are_those_that_the_script_makes() -> None:
    assert sorted(file.stem for file in SHIPPED.glob("*.pdf")) == sorted(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("form", ["md", "txt", "json", "ocr.pdf"])
def test_every_format_has_the_words_of_the_document(name: str, form: str, outputs: Path, truths: Path) -> None:
    truth = (truths / f"{name}.truth.txt").read_text(encoding="utf-8")
    assert recall(truth, _text(outputs / f"{name}.{form}")) >= LEAST[name]


def test_the_measure_sees_what_is_missing(truths: Path) -> None:
    """Negative control: a tenth of the words is left out."""
    words = (truths / "text.truth.txt").read_text(encoding="utf-8").split()
    assert recall(" ".join(words), " ".join(word for at, word in enumerate(words) if at % 10)) < 0.97


def _text(file: Path) -> str:
    if file.suffix == ".json":
        return "\n".join(page["text"] for page in _pages(file))
    if file.suffix != ".pdf":
        return file.read_text(encoding="utf-8")
    document = pypdfium2.PdfDocument(file)
    try:
        return "\n".join(page.get_textpage().get_text_range() for page in document)
    finally:
        document.close()


def _pages(file: Path) -> list[dict[str, Any]]:
    pages: list[dict[str, Any]] = json.loads(file.read_bytes())["pages"]
    return pages


@pytest.mark.parametrize("name", SAMPLES)
def test_every_word_of_the_json_has_its_place_in_text_and_on_the_page(name: str, outputs: Path) -> None:
    for page in _pages(outputs / f"{name}.json"):
        for word in (word for block in page["blocks"] for line in block["lines"] for word in line["words"]):
            assert page["text"][word["start"] : word["start"] + len(word["text"])] == word["text"]
            left, top, right, bottom = word["box"]
            assert 0 <= left < right <= 1
            assert 0 <= top < bottom <= 1
            assert 0 <= word["confidence"] <= 1


def test_each_page_says_who_read_it_and_how(outputs: Path) -> None:
    methods = {name: [page["method"] for page in _pages(outputs / f"{name}.json")] for name in SAMPLES}
    assert methods["text"] == ["text"] * 3
    assert methods["scan-noise"] == ["ocr"]
    assert sorted(methods["mixed"]) == ["ocr", "ocr", "text", "text"]
    assert {page["processor"] for name in SAMPLES for page in _pages(outputs / f"{name}.json")} == {"local"}
    assert [page["language"] for page in _pages(outputs / "scan-german.json")] == ["de"]
    assert [page["language"] for page in _pages(outputs / "scan-noise.json")] == ["en"]


def test_a_page_that_is_turned_in_its_pixels_says_so(outputs: Path) -> None:
    (page,) = _pages(outputs / "scan-turned.json")
    assert page["turned"] in {90, 270}


def test_two_columns_are_read_one_after_the_other(outputs: Path, truths: Path) -> None:
    truth = (truths / "scan-columns.truth.txt").read_text(encoding="utf-8").split()
    found = _text(outputs / "scan-columns.txt").split()
    assert _in_order(truth, found) > 0.97
    half = len(found) // 2
    mixed = [word for pair in zip(found[:half], found[half:], strict=False) for word in pair]
    assert _in_order(truth, mixed) < 0.7


def _in_order(truth: list[str], found: list[str]) -> float:
    return SequenceMatcher(None, truth, found, autojunk=False).ratio()
