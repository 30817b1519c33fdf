"""Decides where a Markdown text is cut into articles: at its headings, and where one would be too long, within.

The articles of a text, one after the other, are the text: nothing is lost, doubled or changed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forebay.errors import BadInput
from forebay.ids import shown as shown_value
from forebay.rules.headings import Heading, Marks, marks, shown

RULE_VERSION = 1
"""Raise it when the same text would be cut in another way."""
LEAST_SIZE = 200
MOST_SIZE = 100_000
USUAL_SIZE = 5000
_TITLE_LETTERS = 80
_SEEN = re.compile(r"\S")
_BARE = re.compile(r"^[\s>#*+|=-]+")
# Where to cut, the best first; what stands before the cut stays with the article that ends there.
_BREAKS = tuple(map(re.compile, (r"\n[ \t]*\n\s*", r"\n\s*", r"[.!?…。！？][\"')\]»”’]*\s+", r"\s+")))  # noqa: RUF001 - full stops of other scripts


@dataclass(frozen=True, slots=True)
class Article:
    """Characters `start` to before `end` of the text; pages are counted from 1, None where a document has none.

    `group` is the title of the heading above its own.
    """

    ordinal: int
    title: str
    group: str | None
    start: int
    end: int
    page: int | None = None
    page_end: int | None = None


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    group: str | None
    start: int
    end: int


def articles(text: str, *, max_size: int = USUAL_SIZE, page_starts: Sequence[int] = ()) -> list[Article]:
    """Ordinals count from 1 in the order of the text; without its outer white space none is longer than `max_size`.

    `page_starts` has the place where each page begins. A text of white space has no articles.
    """
    check_size(max_size)
    found = marks(text)
    cut: list[Article] = []
    for section in _sections(text, found):
        for start, end in _pieces(text, section, found, max_size):
            title = section.title or _first_words(text[start:end])
            first, last = _pages(text, start, end, page_starts)
            cut.append(Article(len(cut) + 1, title, section.group, start, end, first, last))
    return cut


def check_size(max_size: object) -> int:
    if isinstance(max_size, bool) or not isinstance(max_size, int) or not LEAST_SIZE <= max_size <= MOST_SIZE:
        raise BadInput(
            f"max_size is {shown_value(max_size)}.", remedy=f"Give a whole number from {LEAST_SIZE} to {MOST_SIZE}."
        )
    return max_size


def _sections(text: str, found: Marks) -> Iterator[_Section]:
    """A heading without text of its own begins the section of the next; all white space belongs to some section."""
    start = 0
    above: list[Heading] = []
    title = ""
    group: str | None = None
    for heading, following in zip([None, *found.headings], [*found.headings, None], strict=True):
        if heading is not None:
            above = [each for each in above if each.level < heading.level]
            title, group = heading.title, above[-1].title if above else None
            above.append(heading)
        end = len(text) if following is None else following.start
        seen = _SEEN.search(text, heading.end if heading else start, end)
        if seen or (following is None and _SEEN.search(text, start)):
            yield _Section(title, group, start, end)
            start = end


def _pieces(text: str, section: _Section, found: Marks, max_size: int) -> Iterator[tuple[int, int]]:
    start = section.start
    last = start + len(text[start : section.end].rstrip())
    while last - (first := _first(text, start, section.end)) > max_size:
        cut = _cut(text, first, first + max_size, found.code)
        yield start, cut
        start = cut
    yield start, section.end


def _first(text: str, start: int, end: int) -> int:
    """Where the white space at the beginning ends."""
    seen = _SEEN.search(text, start, end)
    return start if seen is None else seen.start()


def _cut(text: str, first: int, window: int, code: Sequence[tuple[int, int]]) -> int:
    """After the last good place of the window, unless that would leave too little before it."""
    least = first + (window - first) // 4
    for kind, pattern in enumerate(_BREAKS):
        best = None
        for found in pattern.finditer(text, least, window + 1):
            if kind or not _inside(code, found.start()):
                best = found
        if best is not None:
            return min(best.end(), window)
    return window


def _inside(code: Sequence[tuple[int, int]], at: int) -> bool:
    place = bisect_right(code, (at, at)) - 1
    return place >= 0 and code[place][0] < at < code[place][1]


def _first_words(text: str) -> str:
    line = shown(_BARE.sub("", text).partition("\n")[0])
    if len(line) <= _TITLE_LETTERS:
        return line
    short = line[:_TITLE_LETTERS]
    return f"{short.rpartition(' ')[0] or short}…"


def _pages(text: str, start: int, end: int, page_starts: Sequence[int]) -> tuple[int | None, int | None]:
    if not page_starts:
        return None, None
    first = _first(text, start, end)
    last = start + len(text[start:end].rstrip()) - 1
    return max(1, bisect_right(page_starts, first)), max(1, bisect_right(page_starts, last))
