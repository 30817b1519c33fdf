"""Writes a merged result as Markdown: its text reads as on the page, and nothing in it is taken for markup."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import IO, Any

from forebay.ids import printable
from forebay.model.document import BETWEEN_WORDS, BlockKind
from forebay.pipelines import reading

_DEEPEST = 6
_HYPHENS = frozenset("-\u00ad\u2010")
# "Ein- und Ausgabe": such a hyphen stands for the rest of a word, and belongs there.
_JOINTS = frozenset({"and", "or", "to", "und", "oder", "bis", "bzw.", "sowie"})
_BULLETS = frozenset("•◦▪▫‣·●○■□–-*")  # noqa: RUF001 - as documents have them
_NUMBER = re.compile(r"[0-9]{1,9}([.)])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ANYWHERE = re.compile(
    r"[\\`*\[~]"
    r"|(?<![^\W_])_|_(?![^\W_])"  # between letters an underscore is only that
    r"|<(?=[A-Za-z/!?])"
    r"|&(?=#?\w+;)"
)
_AT_FIRST = re.compile(r"([0-9]{1,9})(?=[.)](?:\s|$))|(?=[>=|]|[-+](?:[\s-]|$)|:-|#{1,6}(?:\s|$))")
_CLOSING = re.compile(r"#+$")


def write(merged: IO[bytes], output: IO[bytes]) -> None:
    between = ""
    for page in reading.pages(merged):
        output.write(f"{between}<!-- page {page['number']} -->\n{page_text(page)}".encode())
        between = "\n"


def page_text(page: dict[str, Any]) -> str:
    """The Markdown of one page."""
    if missing := page.get("missing"):
        why = _escaped(printable(f"{missing['error_class']}: {missing['error_text']}"))
        return f"\n> **Page {page['number']} is missing** ({why})\n"
    parts = [f"\n> **Page {page['number']}**: {_escaped(printable(why))}" for why in reading.damage(page)]
    list_before = ""
    for block in page["blocks"]:
        lines = [_line(line) for line in block["lines"]]
        list_now, text = _block(block, lines)
        parts.append(text if list_now and list_now == list_before else f"\n{text}")
        list_before = list_now
    return "".join(f"{part}\n" for part in parts)


def _block(block: dict[str, Any], lines: list[str]) -> tuple[str, str]:
    """The kind of list that it goes on with, if any, and its text."""
    match block["kind"]:
        case BlockKind.HEADING:
            level = min(max(block.get("level") or 1, 1), _DEEPEST)
            return "", f"{'#' * level} {_CLOSING.sub(_with_backslash, _escaped(_joined(lines)))}"
        case BlockKind.LIST_ITEM:
            return _item(_joined(lines))
        case BlockKind.TABLE:
            return "", "\\\n".join(_paragraph(line) for line in lines)
        case _:
            return "", _paragraph(_joined(lines))


def _item(text: str) -> tuple[str, str]:
    mark, _, rest = text.partition(BETWEEN_WORDS)
    if rest and (number := _NUMBER.fullmatch(mark)):
        return number[1], f"{mark} {_paragraph(rest)}"
    return "-", f"- {_paragraph(rest if rest and mark in _BULLETS else text)}"


def _line(line: dict[str, Any]) -> str:
    words = " ".join(word["text"] for word in line["words"])
    return _CONTROL.sub("", BETWEEN_WORDS.join(words.split()))


def _joined(lines: Sequence[str]) -> str:
    """The lines as one; a word that a line's end has parted is whole again."""
    parts: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        first = following.partition(BETWEEN_WORDS)[0]
        parted = line[-1:] in _HYPHENS and line[-2:-1].isalpha() and first[:1].islower() and first not in _JOINTS
        parts += [line[:-1]] if parted else [line, BETWEEN_WORDS]
    return "".join(parts).strip()


def _paragraph(text: str) -> str:
    """Text that begins a line, where more is taken for markup than elsewhere."""
    escaped = _escaped(text)
    first = _AT_FIRST.match(escaped)
    return f"{first[0]}\\{escaped[first.end() :]}" if first else escaped


def _escaped(text: str) -> str:
    return _ANYWHERE.sub(_with_backslash, text)


def _with_backslash(found: re.Match[str]) -> str:
    return f"\\{found[0]}"
