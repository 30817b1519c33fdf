"""The files that a merged result can be written as, by the name of the format."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import IO, NamedTuple

from forebay.pipelines.exports import markdown, plain


class Export(NamedTuple):
    """`write` reads the first file from its beginning, a page at a time, and writes the second."""

    suffix: str
    write: Callable[[IO[bytes], IO[bytes]], None]


def _as_it_is(merged: IO[bytes], output: IO[bytes]) -> None:
    merged.seek(0)
    shutil.copyfileobj(merged, output)


EXPORTS = {
    "md": Export(".md", markdown.write),
    "txt": Export(".txt", plain.write),
    "json": Export(".json", _as_it_is),
}
