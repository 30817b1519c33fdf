"""Writes a merged result as plain text: the pages' own text, a form feed between two pages."""

from __future__ import annotations

from typing import IO

from forebay.ids import printable
from forebay.model.document import BETWEEN_PAGES
from forebay.pipelines import reading


def write(merged: IO[bytes], output: IO[bytes]) -> None:
    between = ""
    for page in reading.pages(merged):
        if missing := page.get("missing"):
            why = printable(f"{missing['error_class']}: {missing['error_text']}")
            text = f"[page {page['number']} is missing: {why}]"
        else:
            text = (
                "".join(f"[page {page['number']}: {printable(why)}]\n" for why in reading.damage(page)) + page["text"]
            )
        output.write((between + text).encode())
        between = BETWEEN_PAGES
    output.write(b"\n")
