"""`python -m benchmarks.documents.bare PDF every|ends [OUT]`: the words of a text layer with their boxes, by pypdfium2.

One process and a plain loop. "every" asks for the box of every character, as the library's interface suggests; "ends"
only for those of a word's first and last one. Neither keeps anything, unless it is to write it down.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pypdfium2

Box = tuple[float, float, float, float]


def words_of(page: pypdfium2.PdfPage, *, every: bool) -> Iterator[tuple[str, Box]]:
    """Boxes as the page has them: left, bottom, right, top in points."""
    layer = page.get_textpage()
    text = layer.get_text_range()
    for match in re.finditer(r"\S+", text):
        first, last = match.start(), match.end() - 1
        numbers = range(first, last + 1) if every else (first, last)
        lefts, bottoms, rights, tops = zip(*[layer.get_charbox(number, loose=True) for number in numbers], strict=True)
        yield match[0], (min(lefts), min(bottoms), max(rights), max(tops))


def main() -> None:
    match sys.argv[1:]:
        case [path, "every" | "ends" as how]:
            out = None
        case [path, "every" | "ends" as how, out]:
            pass
        case _:
            sys.exit("benchmarks.documents.bare: started by a benchmark, not by hand.")
    document = pypdfium2.PdfDocument(path)
    pages: list[dict[str, object]] = []
    for page in document:
        words = list(words_of(page, every=how == "every"))
        if out is not None:
            pages.append({"size": page.get_size(), "words": words})
    if out is not None:
        Path(out).write_text(json.dumps(pages))


if __name__ == "__main__":
    main()
