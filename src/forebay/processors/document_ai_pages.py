"""Reads a Document AI document: its text anchors become words, lines and blocks of pages.

Offsets count code points. Numbers of 64 bits come as strings, and whatever is zero is left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from forebay.model.document import Block, Box, Line, Method, Page, Word, around

_WHOLE = Box(0.0, 0.0, 1.0, 1.0)
_UNDETERMINED = "und"


class Malformed(ValueError):
    """It is not what the API promises."""


class _Layout(NamedTuple):
    """A piece of the page's text with its place; `raw` has the space that follows it, too."""

    start: int
    end: int
    raw: str
    box: Box
    confidence: float | None


def pages(document: object, sizes: Sequence[tuple[float, float]], *, processor: str, version: str) -> list[Page]:
    """One for each of the sizes, which are in points; Malformed if the document says anything else."""
    try:
        text = _dict(document).get("text", "")
        found = _dicts(_dict(document), "pages")
        if not isinstance(text, str) or len(found) != len(sizes):
            raise Malformed(f"{len(found)} pages came back for {len(sizes)}.")
        text.encode()  # half of a pair of surrogates can be written as JSON, and is not text
        return [
            _page(each, text, size, processor=processor, version=version)
            for each, size in zip(found, sizes, strict=True)
        ]
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, Malformed):
            raise
        raise Malformed(f"The document is not built as the API says: {type(error).__name__}.") from None


def _page(page: dict[str, Any], text: str, size: tuple[float, float], *, processor: str, version: str) -> Page:
    tokens = _layouts(page, "tokens", text)
    lines = _layouts(page, "lines", text)
    groups = _layouts(page, "paragraphs", text) or _layouts(page, "blocks", text)
    if not (tokens or lines or groups) and "layout" in page:
        groups = [each for each in [_layout(page, text)] if each is not None and each.raw.split()]
    return Page(
        width=size[0],
        height=size[1],
        blocks=tuple(_blocks(tokens, lines, groups)),
        processor=processor,
        version=version,
        method=Method.API,
        language=_language(page),
    )


def _blocks(tokens: list[_Layout], lines: list[_Layout], groups: list[_Layout]) -> list[Block]:
    """Each by where it begins: words into lines, lines into groups; what is in none stands alone."""
    # Zero is left out of the JSON like any other: only where no word has a confidence is there none.
    known = any(each.confidence is not None for each in tokens or lines or groups)
    unsaid = 0.0 if known else 1.0
    if tokens:
        rows = [(held[0].start, _glued(held, unsaid)) for held in _held(tokens, lines)]
    else:
        rows = [(each.start, words) for each in lines or groups for words in _split(each, unsaid)]
    rows = [row for row in rows if row[1]]
    places = _Places(groups)
    return [
        Block(tuple(Line(tuple(words)) for _, words in held))
        for _, held in groupby(rows, key=lambda row: places.of(row[0]))
    ]


def _held(layouts: list[_Layout], holders: list[_Layout]) -> Iterator[list[_Layout]]:
    places = _Places(holders)
    for _, held in groupby(layouts, key=lambda each: places.of(each.start)):
        yield list(held)


class _Places:
    """Which of some layouts holds an offset; None if none does."""

    def __init__(self, layouts: list[_Layout]) -> None:
        self._layouts = layouts
        self._starts = [each.start for each in layouts]

    def of(self, offset: int) -> int | None:
        at = bisect_right(self._starts, offset) - 1
        return at if at >= 0 and offset < self._layouts[at].end else None


def _glued(tokens: list[_Layout], unsaid: float) -> list[Word]:
    """Punctuation is a token of its own: what no space divides is one word."""
    words: list[Word] = []
    before: _Layout | None = None
    for token in tokens:
        text = " ".join(token.raw.split())
        if not text:
            before = None
            continue
        word = Word(text, token.box, unsaid if token.confidence is None else token.confidence)
        if before is not None and _touch(before, token):
            last = words.pop()
            word = Word(last.text + text, around([last.box, word.box]), min(last.confidence, word.confidence))
        words.append(word)
        before = token
    return words


def _touch(before: _Layout, after: _Layout) -> bool:
    return before.end == after.start and not before.raw[-1].isspace() and not after.raw[0].isspace()


def _split(layout: _Layout, unsaid: float) -> list[list[Word]]:
    """Where there are no tokens, each word has the box of its line."""
    confidence = unsaid if layout.confidence is None else layout.confidence
    return [[Word(text, layout.box, confidence) for text in line.split()] for line in layout.raw.splitlines()]


def _layouts(page: dict[str, Any], kind: str, text: str) -> list[_Layout]:
    found = [_layout(each, text) for each in _dicts(page, kind)]
    return sorted((each for each in found if each is not None), key=lambda each: (each.start, each.end))


def _layout(holder: dict[str, Any], text: str) -> _Layout | None:
    """None for one without text, such as a blank page's."""
    layout = _dict(holder.get("layout", {}))
    segments = _dicts(_dict(layout.get("textAnchor", {})), "textSegments")
    spans = [(_whole(each.get("startIndex", 0)), _whole(each.get("endIndex", 0))) for each in segments]
    for start, end in spans:
        if not 0 <= start <= end <= len(text):
            raise Malformed(f"A text anchor from {start} to {end} is outside of the text.")
    if not spans:
        return None
    confidence = layout.get("confidence")
    return _Layout(
        start=spans[0][0],
        end=spans[-1][1],
        raw="".join(text[start:end] for start, end in spans),
        box=_box(_dict(layout.get("boundingPoly", {}))),
        confidence=None if confidence is None else min(1.0, max(0.0, float(confidence))),
    )


def _box(poly: dict[str, Any]) -> Box:
    """Around all corners: those of turned text begin elsewhere than at the top left."""
    corners = _dicts(poly, "normalizedVertices")
    if not corners:
        return _WHOLE
    across = [min(1.0, max(0.0, float(each.get("x", 0.0)))) for each in corners]
    down = [min(1.0, max(0.0, float(each.get("y", 0.0)))) for each in corners]
    return Box(min(across), min(down), max(across), max(down))


def _language(page: dict[str, Any]) -> str | None:
    found = _dicts(page, "detectedLanguages")
    best = max(found, key=lambda each: float(each.get("confidence", 0.0)), default={})
    code = best.get("languageCode")
    return code if isinstance(code, str) and code and code != _UNDETERMINED else None


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise Malformed("An offset is not a number.")
    return int(value)


def _dict(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Malformed("A value should be an object, but is something else.")
    return value


def _dicts(holder: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = holder.get(name, [])
    if not isinstance(found, list):
        raise Malformed(f"{name} is not a list.")
    return [_dict(each) for each in found]
