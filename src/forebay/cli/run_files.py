"""Finds the documents among the files and folders that were named, and follows folders as they fill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from forebay.app.outputs import SEARCHABLE, SUFFIXES
from forebay.pipelines import sniffing


def found(places: Sequence[Path], *, watch: bool = False) -> Iterator[Path | None]:
    """Files as they were named; of folders those that look like documents, below them too. None: none for now.

    A file that is still being written is left for later: what changed between two looks is looked at again.
    """
    given: set[Path] = set()
    for place in places:
        if not place.is_dir() and place not in given:
            given.add(place)
            yield place
    folders = [place for place in places if place.is_dir()]
    seen: dict[Path, tuple[int, int]] = {}
    while True:
        for folder in folders:
            for file in _documents(folder):
                now = _stamp(file)
                if file in given or now is None:
                    continue
                if not watch or seen.get(file) == now:
                    given.add(file)
                    yield file
                seen[file] = now
        if not watch:
            return
        yield None


def _documents(folder: Path) -> list[Path]:
    return sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in sniffing.SUFFIXES and not file.name.startswith(".") and not _is_output(file)
    )


def _is_output(file: Path) -> bool:
    return file.name.endswith(SUFFIXES[SEARCHABLE])


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return (stat.st_size, stat.st_mtime_ns) if file.is_file() else None
