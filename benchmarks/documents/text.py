"""How many pages with a text layer a second are read, kept and merged, beside bare pypdfium2 on the same words."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.documents import papers
from benchmarks.documents.commands import Ran, Wrong, forebay, run
from benchmarks.documents.telling import alternating
from benchmarks.fleet.telling import at_least, machine_readable

_ASKED = 0.5
_NEAR = 0.002
_NAMES = {"every": "pypdfium2, every box", "ends": "pypdfium2, two boxes", "ours": "Forebay"}


def text(folder: Path, rounds: int, pages: int) -> None:
    """A tenth of the pages once more: what is left when the start is taken away."""
    print(f"\ntext: {pages:,} pages of {papers.WORDS} words in their text layer; {rounds} rounds")
    print("  Forebay: forebay run --format md,json, from an empty home to the last file")
    print(f"  pypdfium2 {version('pypdfium2')}: words and boxes in one process, nothing written", flush=True)
    long, short = papers.texts(folder, pages), papers.texts(folder, max(1, pages // 10))
    _same_words(folder, short)
    contenders: dict[str, Callable[[], Ran]] = {}
    for paper in (short, long):
        for how in ("every", "ends"):
            contenders[f"{how} {paper.pages}"] = partial(_bare, paper.path, how)
        contenders[f"ours {paper.pages}"] = partial(forebay, paper.path, folder, "md", "json")
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for name, ran in alternating(contenders, rounds):
        seconds[name].append(ran.seconds)
    rows = []
    print(f"{'median of rounds':>28} {'pages/s':>8} {'least':>7} {'most':>7} {'without start':>14}")
    for how, name in _NAMES.items():
        whole, part = seconds[f"{how} {long.pages}"], seconds[f"{how} {short.pages}"]
        rates = [long.pages / each for each in whole]
        steady = (long.pages - short.pages) / max(1e-9, median(whole) - median(part))
        rows.append({"name": name, "pages_s": median(rates), "rounds": rates, "without_start": steady})
        print(f"{name:>28} {median(rates):>8,.0f} {min(rates):>7,.0f} {max(rates):>7,.0f} {steady:>14,.0f}")
    every, ends, ours = (float(str(row["pages_s"])) for row in rows)
    verdict = at_least(_ASKED, ours / every, "text /pypdfium2 ")
    print(f"{verdict} ({ours / every:.2f}x; of two boxes a word {ours / ends:.2f}x)")
    machine_readable("text", rows, [verdict], pages=pages)


def _bare(document: Path, how: str, *out: str) -> Ran:
    return run([sys.executable, "-m", "benchmarks.documents.bare", str(document), how, *out], {})


def _same_words(folder: Path, paper: papers.Paper) -> None:
    dumped = folder / "bare.json"
    forebay(paper.path, folder, "json")
    ours = json.loads((folder / f"{paper.path.stem}.json").read_text(encoding="utf-8"))["pages"]
    for how in ("every", "ends"):
        _bare(paper.path, how, str(dumped))
        theirs = json.loads(dumped.read_text())
        for number, (truth, one, other) in enumerate(zip(paper.truth, ours, theirs, strict=True), 1):
            compare(f"page {number} of {paper.path.name}, {_NAMES[how]}", truth, one, other)


def compare(which: str, truth: str, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Wrong unless each side has the truth's words, and their boxes are in the same places."""
    found = [word for block in ours["blocks"] for line in block["lines"] for word in line["words"]]
    if not truth.split() == [word["text"] for word in found] == [word for word, _ in theirs["words"]]:
        raise Wrong(f"{which}: not both read the words as they are")
    width, height = theirs["size"]
    for word, (_, (left, bottom, right, top)) in zip(found, theirs["words"], strict=True):
        placed = (left / width, 1 - top / height, right / width, 1 - bottom / height)
        far = max(abs(one - other) for one, other in zip(word["box"], placed, strict=True))
        if far > _NEAR:
            raise Wrong(f"{which}: the boxes of {word['text']!r} are {far:.4f} of the page apart")
