"""Reads the header Range: one range of bytes; several, or another unit, get the whole."""

from __future__ import annotations

import re
from typing import NamedTuple

from forebay.server.problems import Refused

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class Piece(NamedTuple):
    start: int
    end: int
    status: int
    headers: dict[str, str]


def piece_of(wanted: str | None, size: int) -> Piece:
    found = _RANGE.fullmatch(wanted.strip()) if wanted else None
    if found is None or found[0] == "bytes=-":
        return Piece(0, size, 200, {"content-length": str(size)})
    first, last = found[1], found[2]
    if first:
        start, end = int(first), min(size, int(last) + 1 if last else size)
    else:
        start, end = max(0, size - int(last)), size
    if start >= end:
        raise Refused(
            416,
            "range_not_there",
            f"The result has {size} bytes, and none of them are in that range.",
            remedy="Ask for a range within it.",
            headers={"content-range": f"bytes */{size}"},
        )
    return Piece(
        start, end, 206, {"content-length": str(end - start), "content-range": f"bytes {start}-{end - 1}/{size}"}
    )
