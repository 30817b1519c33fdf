"""What the benchmark of documents must refuse to count."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.documents import papers
from benchmarks.documents.commands import Wrong, run
from benchmarks.documents.length import grown
from benchmarks.documents.text import compare

Side = dict[str, Any]


def page(*words: tuple[str, list[float]]) -> Side:
    return {"blocks": [{"lines": [{"words": [{"text": word, "box": box} for word, box in words]}]}]}


def bare(*words: tuple[str, list[float]]) -> Side:
    return {"size": [200.0, 100.0], "words": [list(word) for word in words]}


OURS = page(("Page", [0.1, 0.2, 0.3, 0.4]), ("1", [0.5, 0.2, 0.6, 0.4]))
THEIRS = bare(("Page", [20.0, 60.0, 60.0, 80.0]), ("1", [100.0, 60.0, 120.0, 80.0]))


def test_the_same_words_in_the_same_places_are_the_same() -> None:
    compare("page 1", "Page 1", OURS, THEIRS)


@pytest.mark.parametrize(
    ("truth", "ours", "theirs"),
    [
        ("Page 2", OURS, THEIRS),
        ("Page 1", page(("Page", [0.1, 0.2, 0.3, 0.4])), THEIRS),
        ("Page 1", OURS, bare(("Page", [20.0, 60.0, 60.0, 80.0]), ("I", [100.0, 60.0, 120.0, 80.0]))),
        ("Page 1", page(("Page", [0.1, 0.2, 0.3, 0.4]), ("1", [0.5, 0.21, 0.6, 0.4])), THEIRS),
    ],
    ids=["another truth", "a word less", "another word", "a box elsewhere"],
)
def test_a_side_that_reads_something_else_has_no_figures(truth: str, ours: Side, theirs: Side) -> None:
    with pytest.raises(Wrong):
        compare("page 1", truth, ours, theirs)


def test_a_command_that_fails_has_no_figures() -> None:
    with pytest.raises(Wrong, match="ended with 7"):
        run([sys.executable, "-c", "raise SystemExit(7)"], {})


def test_memory_is_that_of_the_process_without_its_children() -> None:
    big = "x = bytearray(200 << 20)"
    alone = run([sys.executable, "-c", f"import time; {big}; time.sleep(0.1)"], {})
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {big!r}])"
    parent = run([sys.executable, "-c", script], {})
    assert alone.peak_mib > 200
    assert parent.peak_mib < 100


def test_no_two_pages_are_alike(tmp_path: Path) -> None:
    paper = papers.texts(tmp_path, 200)
    assert len(set(paper.truth)) == paper.pages == 200


def test_growth_is_how_many_times_as_long_a_page_takes() -> None:
    assert grown(5.0, 6.0) == 1.2


@pytest.mark.parametrize(("shorter", "longest"), [(-13.59, 16.76), (0.0, 6.0), (5.0, -1.0)])
def test_times_that_the_start_hides_are_no_growth(shorter: float, longest: float) -> None:
    with pytest.raises(Wrong, match="too short"):
        grown(shorter, longest)
