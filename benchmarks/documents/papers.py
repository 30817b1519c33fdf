"""Makes the documents that are read: scans, and texts of any length, no two pages alike."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from pikepdf import Pdf

from examples.documents.make import TEXTS, add_scan, add_text, drawn, laid_out, said

WORDS = 400
_SHEETS = 97


class Paper(NamedTuple):
    """A document, and what each of its pages says."""

    path: Path
    truth: list[str]

    @property
    def pages(self) -> int:
        return len(self.truth)


def scans(folder: Path, pages: int) -> Paper:
    """A4 in grey at 200 dpi, kept as JPEG: each page has paragraphs of the English texts in an order of its own."""
    paragraphs = [part for part in _english() if not part.startswith("#")]
    dice = random.Random(1912)
    truth = []
    path = folder / f"scans-{pages}.pdf"
    with Pdf.new() as pdf:
        for number in range(1, pages + 1):
            text = "\n\n".join([f"# Sheet {number}", *dice.sample(paragraphs, 4)])
            add_scan(pdf, drawn(laid_out(text)))
            truth.append(said(text))
        pdf.save(path, deterministic_id=True)
    return Paper(path, truth)


def texts(folder: Path, pages: int) -> Paper:
    """Pages of about 400 words under a heading with their number."""
    dice = random.Random(1912)
    # None that would mark a heading or an item of a list.
    words = [word for word in " ".join(_english()).split() if word[0].isalnum()]
    sheets = []
    for _ in range(min(_SHEETS, pages)):
        drawn_words = dice.choices(words, k=WORDS)
        blocks = [" ".join(drawn_words[start : start + 80]) for start in range(0, WORDS, 80)]
        sheets.append("\n\n".join(blocks))
    # Laid out once each: every page has its own heading, and stands elsewhere by a hair.
    lines = [list(laid_out(sheet)) for sheet in sheets]
    truth = []
    path = folder / f"text-{pages}.pdf"
    with Pdf.new() as pdf:
        for number in range(1, pages + 1):
            which = (number - 1) % len(sheets)
            heading = next(laid_out(f"# Page {number}"))
            lower = 30 + number / pages
            add_text(pdf, iter([heading, *(line._replace(baseline=line.baseline - lower) for line in lines[which])]))
            truth.append(f"Page {number}\n{sheets[which]}")
        pdf.save(path, deterministic_id=True)
    return Paper(path, truth)


def _english() -> list[str]:
    found = (path.read_text(encoding="utf-8").strip().split("\n\n") for path in sorted(TEXTS.glob("english-*.txt")))
    return [part for parts in found for part in parts]
