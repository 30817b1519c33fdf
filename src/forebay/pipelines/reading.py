"""Reads a merged result page by page, so that no document is in memory as a whole.

A merged result has one page a line, and JSON never has a newline inside a text: lines are all there is to find. Each
function moves in the file, so that one must be done before the next begins.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import IO, Any

from forebay.errors import BadInput
from forebay.model.document import INCOMPLETE
from forebay.pipelines.merging import FORMAT

_BEGINNING = b'{"forebay":%d,' % FORMAT
_PAGES = b',"pages":[\n'
_SUMMARY = b'\n],"summary":'
_STEP = 64 * 1024


def document(file: IO[bytes]) -> dict[str, Any]:
    """What the result says of its document."""
    file.seek(0)
    return _parsed(_head(file).removesuffix(_PAGES) + b"}")["document"]  # type: ignore[no-any-return]


def lines(file: IO[bytes]) -> Iterator[bytes]:
    """Each page as a line of JSON, without what stands between two of them."""
    file.seek(0)
    _head(file)
    for line in file:
        if line.startswith(_SUMMARY[1:]):
            return
        yield line.rstrip(b",\n")
    raise _unlike("ends before its summary")


def pages(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Each page; one that is missing has `missing` with `error_class` and `error_text`, and no text."""
    return map(_parsed, lines(file))


def damage(page: dict[str, Any]) -> list[str]:
    """Why not all of a page may be there."""
    return [note for note in page.get("notes", ()) if note.startswith(INCOMPLETE)]


def summary(file: IO[bytes]) -> dict[str, Any]:
    """What the result says of all pages together, found from its end."""
    at = file.seek(0, os.SEEK_END)
    tail = b""
    while at and _SUMMARY not in tail:
        step = min(at, _STEP)
        at = file.seek(at - step)
        tail = file.read(step) + tail
        file.seek(at)
    _, found, rest = tail.rpartition(_SUMMARY)
    if not found or not rest.endswith(b"}\n"):
        raise _unlike("has no summary")
    return _parsed(rest[:-2])


def _head(file: IO[bytes]) -> bytes:
    head = file.readline()
    if not head.startswith(_BEGINNING) or not head.endswith(_PAGES):
        raise _unlike("does not begin as one")
    return head


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        return json.loads(line)  # type: ignore[no-any-return]
    except ValueError:
        raise _unlike(f"has a line that is not JSON, {len(line)} bytes long") from None


def _unlike(how: str) -> BadInput:
    return BadInput(f"This is not a merged result: it {how}.", remedy="Take it from `forebay result` or run it again.")
