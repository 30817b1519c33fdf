"""Writes a page of words that are known for certain as its line of JSON: the bytes of Page.encoded(), in less time."""

from __future__ import annotations

import json
from functools import cache
from json.encoder import encode_basestring
from typing import Final

from forebay.model.document import BETWEEN_BLOCKS, BETWEEN_LINES, BETWEEN_WORDS, Method
from forebay.processors.pdf.layout import Part
from forebay.processors.pdf.words import SHARES, Words

_END_OF_LINE: Final = len(BETWEEN_LINES) - len(BETWEEN_WORDS)
_END_OF_BLOCK: Final = len(BETWEEN_BLOCKS) - len(BETWEEN_LINES)


@cache
def _edges() -> list[str]:
    """Who only recognizes pages need not wait for it."""
    return [repr(share / SHARES) for share in range(SHARES + 1)]


def text_of(words: Words, parts: list[Part]) -> str:
    """The page as plain text."""
    texts = words.texts
    return BETWEEN_BLOCKS.join(
        BETWEEN_LINES.join([BETWEEN_WORDS.join(texts[row.start : row.end]) for row in part.rows]) for part in parts
    )


def encoded(
    words: Words,
    parts: list[Part],
    *,
    text: str,
    size: tuple[float, float],
    language: str | None,
    processor: str,
    version: str,
    notes: list[str],
) -> bytes:
    """The line of a page; every word has the confidence of a text layer, 1."""
    quoted = [encode_basestring(one) for one in words.texts]
    lengths = [len(one) + len(BETWEEN_WORDS) for one in words.texts]
    boxes, edges = words.boxes, _edges()
    start = 0
    count = 0
    blocks = []
    for part in parts:
        lines = []
        for row in part.rows:
            items = []
            for index in range(row.start, row.end):
                left, top, right, bottom = boxes[index]
                items.append(
                    f'{{"text":{quoted[index]},"start":{start},"box":[{edges[left]},{edges[top]},{edges[right]},{edges[bottom]}],"confidence":1.0}}'
                )
                start += lengths[index]
            start += _END_OF_LINE
            count += len(items)
            box = f"{edges[row.left]},{edges[row.top]},{edges[row.right]},{edges[row.bottom]}"
            lines.append(f'{{"box":[{box}],"words":[{",".join(items)}]}}')
        start += _END_OF_BLOCK
        level = "" if part.level is None else f'"level":{part.level},'
        rows = part.rows
        box = (
            f"{edges[min([row.left for row in rows])]},{edges[min([row.top for row in rows])]},"
            f"{edges[max([row.right for row in rows])]},{edges[max([row.bottom for row in rows])]}"
        )
        blocks.append(f'{{"kind":"{part.kind.value}",{level}"box":[{box}],"lines":[{",".join(lines)}]}}')
    width, height = size
    head = json.dumps(
        {
            "length": len(text),
            "word_count": count,
            "confidence": 1.0 if count else None,
            "language": language,
            "processor": processor,
            "version": version,
            "method": Method.TEXT if count else Method.NONE,
            "width": round(width, 2),
            "height": round(height, 2),
            "turned": 0,
            "notes": notes,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return f'{head[:-1]},"text":{encode_basestring(text)},"blocks":[{",".join(blocks)}]}}\n'.encode()
