"""Words and boxes as Document AI writes them: text anchors, omitted zeros, numbers as strings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from forebay.simulate.reading import Box, Page, Word, confidence, language

_PIXELS = 200 / 72  # a point of the page, drawn with 200 dots an inch
_NUMBERS = {"PAGE_UP": 1, "SPACE": 1, "HYPHEN": 3}
_SNAKE = re.compile(r"_([a-z])")


def document(pages: Sequence[Page], chosen: Iterable[int], kind: str) -> dict[str, Any]:
    """All chosen pages, their text one after the other; offsets count code points."""
    text = ""
    made = []
    for number in chosen:
        page = _Page(pages[number - 1], number, len(text))
        made.append(page.made())
        text += page.text
    return {"mimeType": kind, "text": text, "pages": made}


class _Page:
    def __init__(self, page: Page, number: int, start: int) -> None:
        self._page = page
        self._number = number
        self._start = start
        self._at = start
        self.text = ""

    def made(self) -> dict[str, Any]:
        blocks, lines, tokens = [], [], []
        for paragraph in self._page.paragraphs:
            first = self._at
            for line in paragraph:
                begin = self._at
                tokens += [self._token(word, last=word is line[-1]) for word in line]
                lines.append({"layout": _layout(begin, self._at, line)})
            blocks.append({"layout": _layout(first, self._at, [word for line in paragraph for word in line])})
        width, height = round(self._page.width * _PIXELS), round(self._page.height * _PIXELS)
        whole = _anchored(self._start, self._at) | {
            "boundingPoly": _poly((0.0, 0.0, 1.0, 1.0)),
            "orientation": "PAGE_UP",
        }
        found = {
            "pageNumber": self._number,
            "dimension": {"width": width, "height": height, "unit": "pixels"},
            "layout": whole,
            "detectedLanguages": _languages(self.text),
            "blocks": blocks,
            "paragraphs": blocks,
            "lines": lines,
            "tokens": tokens,
        }
        return {name: value for name, value in found.items() if value != []}

    def _token(self, word: Word, *, last: bool) -> dict[str, Any]:
        begin = self._at
        piece = word.text + ("\n" if last else " ")
        self.text += piece
        self._at += len(piece)
        kind = "HYPHEN" if last and word.text.endswith("-") else "SPACE"
        return {"layout": _layout(begin, self._at, [word]), "detectedBreak": {"type": kind}}


def _layout(start: int, end: int, words: Sequence[Word]) -> dict[str, Any]:
    boxes = [word.box for word in words]
    box = (
        min(each[0] for each in boxes),
        min(each[1] for each in boxes),
        max(each[2] for each in boxes),
        max(each[3] for each in boxes),
    )
    sure = min(confidence(word.text) for word in words)
    return _anchored(start, end) | {"confidence": sure, "boundingPoly": _poly(box), "orientation": "PAGE_UP"}


def _anchored(start: int, end: int) -> dict[str, Any]:
    if start == end:
        return {}
    segment = {"startIndex": str(start), "endIndex": str(end)} if start else {"endIndex": str(end)}
    return {"textAnchor": {"textSegments": [segment]}}


def _poly(box: Box) -> dict[str, Any]:
    left, top, right, bottom = box
    corners = ((left, top), (right, top), (right, bottom), (left, bottom))
    return {"normalizedVertices": [{name: at for name, at in (("x", x), ("y", y)) if at} for x, y in corners]}


def _languages(text: str) -> list[dict[str, Any]]:
    code, sure = language(text)
    return [] if code == "und" else [{"languageCode": code, "confidence": sure}]


def numbered(made: Any) -> Any:  # noqa: ANN401 - JSON
    """With numbers for the names of choices, which Google's own clients ask for."""
    if isinstance(made, list):
        return [numbered(each) for each in made]
    if isinstance(made, dict):
        return {
            name: _NUMBERS.get(each, each) if name in ("orientation", "type") else numbered(each)
            for name, each in made.items()
        }
    return made


def masked(made: dict[str, Any], mask: str) -> dict[str, Any]:
    """Only the fields that a mask such as `text,pages.page_number` names."""
    if mask.strip() in ("", "*"):
        return made
    paths = [_camel(path.strip()).removeprefix("document.").split(".") for path in mask.split(",")]
    kept = _kept(made, [path for path in paths if path[0]])
    return kept if isinstance(kept, dict) else {}


def _kept(value: object, paths: Sequence[Sequence[str]]) -> object:
    if any(not path for path in paths):
        return value
    if isinstance(value, list):
        return [_kept(each, paths) for each in value]
    if not isinstance(value, dict):
        return value
    names = {path[0] for path in paths}
    return {
        name: _kept(each, [path[1:] for path in paths if path[0] == name])
        for name, each in value.items()
        if name in names
    }


def _camel(path: str) -> str:
    return _SNAKE.sub(lambda match: match[1].upper(), path)
