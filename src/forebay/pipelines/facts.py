"""What the stored pages of a chunk amount to, checked on the way: a merge of that chunk alone."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

from forebay.pipelines import reading
from forebay.pipelines.merging import Piece, merged

_ALONE = "0" * 64


class Summed:
    """Passes a result on, piece by piece, and knows its summary when it is through."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self._last = b""

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._last = piece
            yield piece

    @property
    def summary(self) -> dict[str, Any]:
        return reading.summary(io.BytesIO(self._last))


def of(lines: bytes, page_count: int) -> dict[str, Any]:
    """BadChunks unless they are that many pages."""
    piece = Piece(document=_ALONE, page_start=1, page_end=page_count, lines=lambda: lines.splitlines(keepends=True))
    whole = Summed(merged({"sha256": _ALONE}, page_count, [piece]))
    for _ in whole:
        pass
    told = whole.summary
    return {name: told[name] for name in ("page_count", "word_count", "text_length", "confidence", "languages")}
