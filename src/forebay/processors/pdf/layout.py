"""Puts the rows of a text layer into blocks: columns one after the other, paragraphs, headings, items of lists."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Final

from forebay.model.document import BlockKind
from forebay.processors.pdf.words import SHARES, Row, Words

_BULLETS: Final = frozenset("•‣▪▫◦●○■□–—-*·∙➢➤✓")  # noqa: RUF001 - each as it is printed
_NUMBERED: Final = re.compile(r"\(?(\d{1,3}|[a-zA-Z])[.)]\)?$")
_BEGIN: Final = frozenset(("1", "a"))
_GAP: Final = 0.9  # of the letters' size: what may part two columns
_GUTTER: Final = 0.5
_ROWS_OF_COLUMNS: Final = 3
_WORDS_OF_COLUMNS: Final = 2.5  # a row of a table has fewer words in a cell
_SAME_SIZE: Final = 0.12
_PITCH: Final = 1.5
_PITCH_OF_PAGE: Final = 1.25
_WIDEST_PITCH: Final = 3.0
_INDENT: Final = 0.9
_HEADING: Final = 1.15
_LEVELS: Final = ((1.8, 1), (1.4, 2))
_LOWEST_LEVEL: Final = 3
_HEADING_LINES: Final = 3
_HEADING_WORDS: Final = 30


@dataclass(slots=True)
class Part:
    """A block in the making."""

    rows: list[Row] = field(default_factory=list)
    kind: BlockKind = BlockKind.PARAGRAPH
    level: int | None = None


def parts(words: Words, width: float, height: float) -> list[Part]:
    """The blocks of a page in the order of reading; width and height in points."""
    rows = _in_columns(_joined(words.rows), words, width / SHARES)
    body = _body_size(rows)
    return blocks(rows, words.texts, body, (width / SHARES, height / SHARES), heading=_HEADING)


def blocks(rows: list[Row], texts: list[str], body: float, unit: tuple[float, float], *, heading: float) -> list[Part]:
    """Rows in the order of reading as blocks.

    `unit` is what one step across and one down is in the unit of sizes, `body` the size of ordinary print, and
    `heading` how many times as large a heading is at least.
    """
    made = list(_grouped(rows, texts, *unit))
    for part in made:
        ratio = part.rows[0].size / body
        count = sum(row.end - row.start for row in part.rows)
        if ratio >= heading and len(part.rows) <= _HEADING_LINES and count <= _HEADING_WORDS and part.rows[0].upright:
            part.kind = BlockKind.HEADING
            part.level = next((level for least, level in _LEVELS if ratio >= least), _LOWEST_LEVEL)
    return made


def _marker(word: str, count: int, last: str) -> str:
    """What marks a line of so many words as an item of a list: a bullet, or a number that follows the last one."""
    if count < 2:  # noqa: PLR2004 - a marker and something it marks
        return ""
    if word in _BULLETS:
        return word
    numbered = _NUMBERED.fullmatch(word)
    return numbered[1] if numbered and (numbered[1] in _BEGIN or _follows(last, numbered[1])) else ""


def _joined(rows: Sequence[Row]) -> list[Row]:
    """Rows side by side on one line of print are one row."""
    made: list[Row] = []
    for row in rows:
        if made and row.upright:
            last = made[-1]
            shared = min(last.bottom, row.bottom) - max(last.top, row.top)
            least = 0.5 * min(last.bottom - last.top, row.bottom - row.top)
            if last.upright and row.left >= last.right and row.start == last.end and shared > least > 0:
                made[-1] = Row(
                    last.start, row.end, last.left, min(last.top, row.top), row.right, max(last.bottom, row.bottom),
                    max(last.size, row.size),
                )  # fmt: skip
                continue
        made.append(row)
    return made


def _in_columns(rows: list[Row], words: Words, width: float) -> list[Row]:
    """Rows that go across two or more columns are cut, and each column is read to its end."""
    gaps = [_gaps(row, words, width) for row in rows]
    if sum(map(bool, gaps)) < _ROWS_OF_COLUMNS:
        return rows
    made: list[Row] = []
    index = 0
    while index < len(rows):
        end, gutters = _run(rows, gaps, index, width)
        columns = _cut(rows[index:end], gutters, words) if gutters else []
        if columns:
            for column in columns:
                made.extend(column)
            index = end
        else:
            made.append(rows[index])
            index += 1
    return made


def _gaps(row: Row, words: Words, width: float) -> list[tuple[float, float]]:
    if not row.upright or row.end - row.start < 2:  # noqa: PLR2004 - a gap is between two words
        return []
    least = _GAP * row.size / width
    boxes = words.boxes[row.start : row.end]
    return [(one[2], two[0]) for one, two in pairwise(boxes) if two[0] - one[2] > least]


def _run(
    rows: list[Row], gaps: list[list[tuple[float, float]]], start: int, width: float
) -> tuple[int, list[tuple[float, float]]]:
    """How far the gaps of a row go on below it, and those that do."""
    gutters = gaps[start]
    end = start + 1
    while gutters and end < len(rows) and rows[end].upright:
        row = rows[end]
        least = _GUTTER * row.size / width
        free = [(-math.inf, row.left), *gaps[end], (row.right, math.inf)]
        shared = [
            (max(one[0], two[0]), min(one[1], two[1]))
            for one in gutters
            for two in free
            if min(one[1], two[1]) - max(one[0], two[0]) > least
        ]
        if not shared:
            break
        gutters, end = shared, end + 1
    return end, gutters


def _cut(rows: list[Row], gutters: list[tuple[float, float]], words: Words) -> list[list[Row]]:
    """One list of rows for each column; none where it looks like a table."""
    edges = [(one + two) / 2 for one, two in gutters]
    columns: list[list[Row]] = [[] for _ in range(len(edges) + 1)]
    for row in rows:
        start = row.start
        for number, edge in enumerate([*edges, math.inf]):
            end = start
            while end < row.end and words.boxes[end][0] < edge:
                end += 1
            if end > start:
                columns[number].append(_narrowed(row, words, start, end))
            start = end
    for column in columns:
        count = sum(row.end - row.start for row in column)
        if len(column) < _ROWS_OF_COLUMNS or count < _WORDS_OF_COLUMNS * len(column):
            return []
    return columns


def _narrowed(row: Row, words: Words, start: int, end: int) -> Row:
    lefts, tops, rights, bottoms = zip(*words.boxes[start:end], strict=True)
    return Row(start, end, min(lefts), min(tops), max(rights), max(bottoms), row.size)


def _body_size(rows: list[Row]) -> float:
    """The size that most words have, to half a point."""
    sizes: Counter[float] = Counter()
    for row in rows:
        sizes[round(row.size * 2) / 2] += row.end - row.start
    return max(sizes, key=lambda size: (sizes[size], -size), default=0.0) or 1.0


def _grouped(rows: list[Row], texts: list[str], width: float, height: float) -> Iterator[Part]:
    pitches = [
        (two.bottom - one.bottom) * height
        for one, two in pairwise(rows)
        if one.bottom < two.bottom and (two.bottom - one.bottom) * height < _WIDEST_PITCH * two.size
    ]
    usual = median(pitches) if pitches else 0.0
    part = Part()
    last = ""
    for row in rows:
        marker = _marker(texts[row.start], row.end - row.start, last)
        if part.rows and (marker or _apart(part, row, usual, width, height)):
            yield part
            part = Part()
        if marker:
            last, part.kind = marker, BlockKind.LIST_ITEM
        part.rows.append(row)
    if part.rows:
        yield part


def _apart(part: Part, row: Row, usual: float, width: float, height: float) -> bool:
    """Whether a row begins a new block below the last row of this one."""
    last = part.rows[-1]
    pitch = (row.bottom - last.bottom) * height
    return (
        row.upright != last.upright
        or abs(row.size - last.size) > _SAME_SIZE * last.size
        or pitch <= 0
        or pitch > max(_PITCH * row.size, _PITCH_OF_PAGE * min(usual, _WIDEST_PITCH * row.size))
        or row.left > last.right
        or row.right < last.left
        or _indented(part, row, width)
    )


def _indented(part: Part, row: Row, width: float) -> bool:
    """Whether a row stands in from a block of two lines or more that are flush: so a book begins a paragraph."""
    if part.kind is BlockKind.LIST_ITEM or len(part.rows) < 2:  # noqa: PLR2004 - one line alone may be indented itself
        return False
    edge = part.rows[-1].left
    flush = abs(part.rows[-2].left - edge) * width < 1.0 or len(part.rows) == 2  # noqa: PLR2004 - the first one may stand in
    return flush and _INDENT * row.size < (row.left - edge) * width < 5 * row.size


def _follows(last: str, this: str) -> bool:
    if last.isdecimal() and this.isdecimal():
        return int(this) == int(last) + 1
    return len(last) == 1 and last.isalpha() and this.isalpha() and ord(this) == ord(last) + 1
