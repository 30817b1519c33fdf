"""Writes rows of cells as a Markdown table."""

from __future__ import annotations

from collections.abc import Sequence

from forebay.processors.office.plain import literal


def table(rows: Sequence[Sequence[str]]) -> str:
    """The first row is its head; rows that are shorter are filled up."""
    width = max((len(row) for row in rows), default=0)
    if not width:
        return ""
    lines = ["| " + " | ".join([*map(cell, row), *[""] * (width - len(row))]) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """On one line, and without what would end the cell."""
    return literal(" ".join(text.split()).replace("\\", "\\\\")).replace("|", "\\|")
