"""Writes answers: tables on a terminal, plain columns in a pipe, JSON and NDJSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from forebay.cli.options import Format
from forebay.ids import printable

if TYPE_CHECKING:
    from forebay.model.payload import Json

_GAP = "  "
# JSON leaves these as they are, but a terminal may obey them; in JSON text they stand in strings only.
_UNSAFE = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def terminal() -> bool:
    return sys.stdout.isatty()


def line(text: str = "") -> None:
    sys.stdout.write(f"{text}\n")


def note(text: str) -> None:
    """Progress and complaints: they never mix with the answer."""
    sys.stderr.write(f"{text}\n")


def json_text(value: Json, *, indent: int | None = None) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def write(records: Iterable[object], form: Format, *, one: bool = False) -> None:
    """Records of the ledger, or plain ones, as JSON or NDJSON; `one`: an object instead of a list of one."""
    from forebay.app.plain import plain

    made = (record if isinstance(record, dict) else plain(record) for record in records)
    if form == "ndjson":
        for record in made:
            line(json_text(record))
    else:
        whole: list[Json] = [*made]
        line(json_text(whole[0] if one else whole, indent=2))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    safe = [[printable(cell) for cell in row] for row in rows]
    if terminal():
        _rich(columns, safe)
        return
    lines = [[column.upper() for column in columns], *safe]
    widths = [max(len(row[index]) for row in lines) for index in range(len(columns))]
    for row in lines:
        line(_GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def pairs(rows: Iterable[tuple[str, str]]) -> None:
    """A record for people: one field a line, and none that is empty."""
    kept = [(name, printable(value)) for name, value in rows if value]
    width = max((len(name) for name, _ in kept), default=0) + 1
    for name, value in kept:
        line(f"{f'{name}:':<{width}} {value}")


def lines(text: str, *, indent: str = "    ") -> None:
    """A text of several lines, such as a traceback."""
    for each in text.splitlines():
        line(f"{indent}{printable(each)}")


def _rich(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        made.add_column(column.upper(), overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console().print(made)


_STYLES = {
    "completed": "green",
    "failed": "red",
    "running": "cyan",
    "canceled": "dim",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}
