"""Finds the documents among the files and folders that were named, and follows folders as they fill."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from forebay.app.naming import Source
from forebay.errors import BadInput
from forebay.ids import printable, shown
from forebay.pipelines import sniffing
from forebay.pipelines.known import WRITTEN

Stamp = tuple[int, int]
_REST_S = 1.0
_OUTPUTS = frozenset({".md", ".txt"})


def found(places: Sequence[str], suffixes: frozenset[str] = sniffing.SUFFIXES) -> list[Source]:
    """Files as they were named; of folders those that look like documents, below them too; each once."""
    sources: dict[str, Source] = {}
    empty = []
    for place in map(_place, places):
        inside = _documents(place, suffixes) if place.is_dir() else [Source(place)]
        if not inside:
            empty.append(place)
        for source in inside:
            sources.setdefault(os.path.abspath(source.path), source)  # noqa: PTH100 - `..` goes, links stay
    if empty:
        names = ", ".join(printable(str(place)) for place in empty)
        known = " ".join(sorted(suffixes))
        raise BadInput(f"There are no documents in {names}.", remedy=f"Documents in folders end in {known}.")
    return [*sources.values()]


def followed(places: Sequence[str], suffixes: frozenset[str] = sniffing.SUFFIXES) -> Iterator[list[Source]]:
    """At each look, which the caller paces, what came or changed, and then rested: the files that were named first."""
    folders: list[Path] = []
    named: list[Path] = []
    for place in map(_place, places):
        (folders if place.is_dir() else named).append(place)
    if not folders:
        raise BadInput("--watch follows folders, and none is named.", remedy="Name a folder.")
    return _followed([*map(Source, dict.fromkeys(named))], folders, suffixes)


def _followed(named: list[Source], folders: Sequence[Path], suffixes: frozenset[str]) -> Iterator[list[Source]]:
    yield named
    given = {source.path: _stamp(source.path) for source in named}
    since: dict[tuple[Path, Stamp], float] = {}
    while True:
        there = {source.path: source for folder in folders for source in _documents(folder, suffixes)}
        stamps = [(path, stamp) for path in there if (stamp := _stamp(path)) is not None]
        now = time.monotonic()
        since = {each: since.get(each, now) for each in stamps}
        rested = {path: stamp for path, stamp in since if now - since[path, stamp] >= _REST_S}
        fresh = [path for path, stamp in rested.items() if given.get(path) != stamp]
        given |= rested
        yield [there[path] for path in fresh]


def _place(name: str) -> Path:
    if not name or "\0" in name:
        raise BadInput(f"{shown(name)} is not a file.", remedy="Name PDFs, images or folders.")
    return Path(name)


def _documents(folder: Path, suffixes: frozenset[str]) -> list[Source]:
    """Not what is hidden, nor what was written here; links to folders are not followed."""
    sources = []
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = Path(parent).relative_to(folder)
        names = [name for name in sorted(files) if _is_document(name, suffixes)]
        paths = [Path(parent, name) for name in names if not _looks_written(name, names)]
        sources += [Source(path, below) for path in paths if path.is_file()]
    return sources


def _is_document(name: str, suffixes: frozenset[str]) -> bool:
    if name.startswith(".") or name.lower().endswith(WRITTEN):
        return False
    return Path(name).suffix.lower() in suffixes


def _looks_written(name: str, names: Sequence[str]) -> bool:
    """Text beside a document that it may have been made of: scan.md beside scan.pdf, notes.md.md beside notes.md."""
    stem, suffix = Path(name).stem, Path(name).suffix.lower()
    return suffix in _OUTPUTS and any(other != name and stem in {Path(other).stem, other} for other in names)


def _stamp(path: Path) -> Stamp | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
