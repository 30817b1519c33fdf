"""Finds the headings of a Markdown text, and where code is that only looks like one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from forebay.errors import TooLarge

MAX_TITLE = 200
MAX_HEADINGS = 100_000
_MAX_LINE = 2000
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_NO_PARAGRAPH = re.compile(r"\s*(?:[|>#=+*`~-]|[0-9]{1,9}[.)])|\s{4,}|\s*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_MARKUP = re.compile(
    r"!?\[([^\[\]\n]*)\]\([^()\n]*\)|\*{1,3}|`+|~~|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)|\\(?=[^\w\s])"
)


class Heading(NamedTuple):
    """`start` is where its first line begins, `end` where the line after it does."""

    level: int
    title: str
    start: int
    end: int


class Marks(NamedTuple):
    """`code` has the places of fenced code, from one character to before another."""

    headings: list[Heading]
    code: list[tuple[int, int]]


def marks(text: str) -> Marks:
    found = Marks([], [])
    fence: tuple[str, int] | None = None
    above: tuple[str, int, bool] | None = None  # the line before, where it begins, whether it is alone
    for line, at in _lines(text):
        opened = _FENCE.fullmatch(line)
        if fence is not None:
            if opened and opened[1].startswith(fence[0]) and not opened[2].strip():
                found.code.append((fence[1], at + len(line)))
                fence = None
            continue
        if opened and not (opened[1][0] == "`" and "`" in opened[2]):
            fence, above = (opened[1], at), None
            continue
        if heading := _ATX.match(line):
            title = shown(_unclosed(line[heading.end() :]))
            found.headings.append(Heading(len(heading[1]), title, at, at + len(line) + 1))
            above = None
        elif above and above[2] and (underline := _UNDERLINE.fullmatch(line)):
            level = 1 if underline[1][0] == "=" else 2
            found.headings.append(Heading(level, shown(above[0]), above[1], at + len(line) + 1))
            above = None
        else:
            alone = above is None or not above[0].strip()
            above = (line, at, alone and not _NO_PARAGRAPH.match(line))
        if len(found.headings) > MAX_HEADINGS:
            raise TooLarge(f"The text has more than {MAX_HEADINGS:,} headings.", remedy="Split it first.")
    if fence is not None:
        found.code.append((fence[1], len(text)))
    return found


def _lines(text: str) -> Iterator[tuple[str, int]]:
    for found in _LINE.finditer(text):
        yield found[0].removesuffix("\n"), found.start()


def _unclosed(title: str) -> str:
    """Without the marks that may close a heading, too."""
    title = title.strip()
    bare = title.rstrip("#")
    return bare if bare != title and bare[-1:] in {"", " ", "\t"} else title


def shown(line: str) -> str:
    """A line without its markup, short enough to be a title."""
    words = " ".join(_MARKUP.sub(lambda found: found[1] or "", line.strip()[:_MAX_LINE]).split())
    return words if len(words) <= MAX_TITLE else f"{words[: MAX_TITLE - 1].rstrip()}…"
