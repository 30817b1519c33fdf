"""Merges the stored pages of a document's chunks into its one result, a page at a time.

Pure: the same pages give the same bytes, however they were split into chunks and however often they are merged.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from forebay.errors import BadChunks, BadInput, DuplicatedPages, ForeignPages, MissingPages
from forebay.ids import shown
from forebay.model.document import BETWEEN_PAGES, INCOMPLETE
from forebay.model.payload import Json

FORMAT = 1
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_NUMBER = rb"-?[0-9.]+(?:[eE][-+]?[0-9]+)?"
# The rest of a page may be megabytes of words, and is passed on as it is.
_BEGINNING = re.compile(
    rb'\{("length":([0-9]+),"word_count":([0-9]+),"confidence":(null|%b),"language":(null|%b),"processor":(%b),)'
    % (_NUMBER, _STRING, _STRING)
)
# Inside of a text its quotation marks would have backslashes: the first one is the field.
_NOTES = b'"notes":['
_REDO = "Retry the job: chunks whose results do not fit are processed again."


class Hole(NamedTuple):
    """Why there are no pages."""

    error_class: str
    error_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A chunk as a merge sees it: pages `page_start` to `page_end` of the document with this sha256.

    `lines` is called when its turn comes, so that a piece holds no page before; it gives one stored line for each.
    """

    document: str
    page_start: int
    page_end: int
    lines: Callable[[], Iterable[bytes]] | Hole

    def __str__(self) -> str:
        return f"the chunk of pages {self.page_start} to {self.page_end}"


def merged(
    document: Mapping[str, Json],
    page_count: int,
    chunks: Iterable[Piece],
    *,
    repaired: bool = False,
    notes: Sequence[str] = (),
    lacking: Mapping[int, str] = MappingProxyType({}),
) -> Iterator[bytes]:
    """The bytes of the result; `document` says at least its sha256, `lacking` by page what the document has lost of it.

    The chunks may come in any order. Ranges are checked before the first byte, lines when they come: what was made
    of a result is worth nothing until its end has come without an error.
    """
    sha256 = document.get("sha256")
    if not isinstance(sha256, str) or page_count < 1:
        raise BadInput(
            f"There is no document of {page_count} pages with the sha256 {shown(sha256)} to merge.",
            remedy="Name the document by its sha256, and merge one page or more.",
        )
    told: dict[str, Json] = {"repaired": repaired, "notes": list(notes)}
    return _streamed(document, in_order(sha256, page_count, chunks), told, lacking)


class Ranged(Protocol):
    """Some pages of a document; its text names them."""

    @property
    def document(self) -> str: ...
    @property
    def page_start(self) -> int: ...
    @property
    def page_end(self) -> int: ...


R = TypeVar("R", bound=Ranged)


def in_order(sha256: str, page_count: int, chunks: Iterable[R]) -> list[R]:
    """The chunks by page, every page of the document in exactly one of them."""
    pieces = sorted(chunks, key=lambda piece: (piece.page_start, piece.page_end))
    expected = 1
    for piece in pieces:
        if piece.document != sha256:
            raise ForeignPages(
                f"In the merge of document {sha256}, {piece} is one of document {shown(piece.document)}.", remedy=_REDO
            )
        if not 1 <= piece.page_start <= piece.page_end <= page_count:
            raise ForeignPages(f"Document {sha256} has pages 1 to {page_count}, but not {piece}.", remedy=_REDO)
        if piece.page_start < expected:
            raise DuplicatedPages(
                f"Document {sha256} has page {piece.page_start} twice: in {piece}, and in one before it.", remedy=_REDO
            )
        if piece.page_start > expected:
            raise _missing(sha256, expected, piece.page_start - 1)
        expected = piece.page_end + 1
    if expected <= page_count:
        raise _missing(sha256, expected, page_count)
    return pieces


def _missing(sha256: str, first: int, last: int) -> MissingPages:
    return MissingPages(f"No chunk has pages {first} to {last} of document {sha256}.", remedy=_REDO)


def _streamed(
    document: Mapping[str, Json], pieces: list[Piece], told: dict[str, Json], lacking: Mapping[int, str]
) -> Iterator[bytes]:
    tally = _Tally()
    yield b'{"forebay":%d,"document":%b,"pages":[' % (FORMAT, _json(document))
    between = b"\n"
    for piece in pieces:
        for number, page in enumerate(_pages(piece, tally), piece.page_start):
            yield between + (_noted(page, lacking[number]) if number in lacking else page)
            between = b",\n"
    yield b'\n],"summary":%b}\n' % _json(tally.summary() | told)


def _pages(piece: Piece, tally: _Tally) -> Iterator[bytes]:
    if isinstance(piece.lines, Hole):
        missing = _json({"length": 0, "missing": piece.lines._asdict()})[1:]
        for number in range(piece.page_start, piece.page_end + 1):
            yield b'{"number":%d,"text_start":%d,%b' % (number, tally.hole(number, piece.lines), missing)
        return
    number = piece.page_start
    for line in piece.lines():
        beginning = _BEGINNING.match(line)
        if number > piece.page_end or not beginning or not line.endswith(b"}\n"):
            raise BadChunks(f"In {piece}, line {number - piece.page_start + 1} is not one of its pages.", remedy=_REDO)
        yield b'{"number":%d,"text_start":%d,%b' % (number, tally.page(*beginning.groups()[1:]), line[1:-1])
        number += 1
    if number <= piece.page_end:
        raise BadChunks(f"The result of {piece} ends after page {number - 1}.", remedy=_REDO)


def _noted(page: bytes, lacks: str) -> bytes:
    """With one more note, before those that it has; a page that is missing has none."""
    before, mark, after = page.partition(_NOTES)
    if not mark:
        return page
    note = json.dumps(INCOMPLETE + lacks, ensure_ascii=False).encode()
    return before + mark + note + (after if after.startswith(b"]") else b"," + after)


@dataclass(slots=True)
class _Tally:
    """What is known of the pages so far."""

    page_count: int = 0
    word_count: int = 0
    text_length: int = 0
    confidence: float = 0.0
    languages: Counter[str] = field(default_factory=Counter)
    processors: Counter[str] = field(default_factory=Counter)
    holes: list[dict[str, Json]] = field(default_factory=list)

    def page(self, length: bytes, words: bytes, confidence: bytes, language: bytes, processor: bytes) -> int:
        """Where the text of this page begins."""
        start = self._begin()
        self.text_length += int(length)
        self.word_count += int(words)
        if confidence != b"null":
            self.confidence += int(words) * float(confidence)
        if language != b"null":
            self.languages[json.loads(language)] += 1
        self.processors[json.loads(processor)] += 1
        return start

    def hole(self, number: int, hole: Hole) -> int:
        """The same for a page that is missing; neighbours that are missing for the same reason are one hole."""
        last = self.holes[-1] if self.holes else {}
        if last.get("page_end") == number - 1 and hole == (last["error_class"], last["error_text"]):
            last["page_end"] = number
        else:
            self.holes.append({"page_start": number, "page_end": number, **hole._asdict()})
        return self._begin()

    def _begin(self) -> int:
        if self.page_count:
            self.text_length += len(BETWEEN_PAGES)
        self.page_count += 1
        return self.text_length

    def summary(self) -> dict[str, Json]:
        return {
            "page_count": self.page_count,
            "word_count": self.word_count,
            "text_length": self.text_length,
            "confidence": round(self.confidence / self.word_count, 4) if self.word_count else None,
            "languages": _most_first(self.languages),
            "holes": list(self.holes),
            "processors": _most_first(self.processors),
        }


def _most_first(pages: Counter[str]) -> dict[str, Json]:
    return {name: pages[name] for name in sorted(pages, key=lambda name: (-pages[name], name))}


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
