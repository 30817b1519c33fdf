"""Finds the documents among the files and folders that were named, and follows folders as they fill."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from forebay.app.exporting import SEARCHABLE, SUFFIXES
from forebay.app.naming import Source
from forebay.errors import BadInput
from forebay.ids import printable, shown
from forebay.pipelines import sniffing

Stamp = tuple[int, int]
_REST_S = 1.0


def found(places: Sequence[str]) -> list[Source]:
    """Files as they were named; of folders those that look like documents, below them too; each once."""
    sources: dict[str, Source] = {}
    empty = []
    for place in map(_place, places):
        inside = _documents(place) if place.is_dir() else [Source(place)]
        if not inside:
            empty.append(place)
        for source in inside:
            sources.setdefault(os.path.abspath(source.path), source)  # noqa: PTH100 - `..` goes, links stay
    if empty:
        names = ", ".join(printable(str(place)) for place in empty)
        known = " ".join(sorted(sniffing.SUFFIXES))
        raise BadInput(f"There are no documents in {names}.", remedy=f"Documents in folders end in {known}.")
    return [*sources.values()]


def followed(places: Sequence[str]) -> Iterator[list[Source]]:
    """At each look, which the caller paces, what came or changed, and then rested: the files that were named first."""
    folders: list[Path] = []
    named: list[Path] = []
    for place in map(_place, places):
        (folders if place.is_dir() else named).append(place)
    if not folders:
        raise BadInput("--watch follows folders, and none is named.", remedy="Name a folder.")
    return _followed([*map(Source, dict.fromkeys(named))], folders)


def _followed(named: list[Source], folders: Sequence[Path]) -> Iterator[list[Source]]:
    yield named
    given = {source.path: _stamp(source.path) for source in named}
    since: dict[tuple[Path, Stamp], float] = {}
    while True:
        there = {source.path: source for folder in folders for source in _documents(folder)}
        stamps = [(path, stamp) for path in there if (stamp := _stamp(path)) is not None]
        now = time.monotonic()
        since = {each: since.get(each, now) for each in stamps}
        rested = {path: stamp for path, stamp in since if now - since[path, stamp] >= _REST_S}
        fresh = [path for path, stamp in rested.items() if given.get(path) != stamp]
        given |= rested
        yield [there[path] for path in fresh]


def _place(name: str) -> Path:
    if not name or "\0" in name:
        raise BadInput(f"{shown(name)} is no file.", remedy="Name PDFs, images or folders.")
    return Path(name)


def _documents(folder: Path) -> list[Source]:
    """Not what is hidden, nor searchable PDFs that were written here; links to folders are not followed."""
    sources = []
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = Path(parent).relative_to(folder)
        paths = [Path(parent, name) for name in sorted(files) if _is_document(name)]
        sources += [Source(path, below) for path in paths if path.is_file()]
    return sources


def _is_document(name: str) -> bool:
    if name.startswith(".") or name.lower().endswith(SUFFIXES[SEARCHABLE]):
        return False
    return Path(name).suffix.lower() in sniffing.SUFFIXES


def _stamp(path: Path) -> Stamp | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
