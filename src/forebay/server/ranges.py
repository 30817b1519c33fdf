"""Reads Range and If-Range: one range of bytes. Several, other units, and ranges of a former result get the whole."""

from __future__ import annotations

import re
from typing import NamedTuple

from forebay.server.problems import Refused

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_LONGEST = 1000
_DIGITS = 18


class Piece(NamedTuple):
    start: int
    end: int
    status: int
    headers: dict[str, str]


class Wanted(NamedTuple):
    """What was asked for, by the headers of a request."""

    range: str | None
    if_range: str | None
    if_none_match: str | None

    def known(self, etag: str) -> bool:
        return self.if_none_match is not None and ("*" in self.if_none_match or etag in self.if_none_match)

    def range_of(self, etag: str) -> str | None:
        """None where it was meant for another version; by a date nobody can tell, since results have none."""
        return self.range if self.if_range is None or self.if_range.strip() == etag else None


def _number(digits: str) -> int:
    """As far as it matters: nothing is longer."""
    bare = digits.lstrip("0")
    return int(bare or "0") if len(bare) <= _DIGITS else 10**_DIGITS


def piece_of(wanted: str | None, size: int) -> Piece:
    found = _RANGE.fullmatch(wanted.strip()) if wanted and len(wanted) <= _LONGEST else None
    if found is None or found[0] == "bytes=-":
        return Piece(0, size, 200, {"content-length": str(size)})
    first, last = found[1], found[2]
    if first:
        start, end = _number(first), min(size, _number(last) + 1 if last else size)
    else:
        start, end = max(0, size - _number(last)), size
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
