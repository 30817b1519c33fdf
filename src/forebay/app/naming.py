"""Decides which names the outputs of documents get, so that no two documents have the same."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from forebay.pipelines import sniffing

_SHORT, _FULL, _FAR = range(3)


class Source(NamedTuple):
    """A document's file; `below` are the folders between it and the one that was named."""

    path: Path
    below: Path = Path()


class Names:
    """`scan`, as in scan.md; `scan.png` where several are a scan; with their folders where those are alike too.

    Beside their documents, what lies in the folder counts, in a folder of their own, what was handed in: so the names
    are the same in whatever order documents come. Who comes later, to a folder that is watched, gives way.
    """

    def __init__(self, folder: Path | None, suffixes: Sequence[str]) -> None:
        self._folder = folder
        self._suffixes = tuple(suffixes)
        self._given: dict[Path, Path] = {}
        self._taken: set[str] = set()
        self._sources: dict[Path, Source] = {}

    def of(self, path: Path) -> Path:
        """The outputs' common beginning, which their suffixes are put to."""
        known = self._given.get(_absolute(path))
        if known is None:
            self.give([Source(path)])
            known = self._given[_absolute(path)]
        return known

    def give(self, sources: Iterable[Source]) -> list[Path]:
        """Name the outputs of more documents; those that could not have the short name are returned."""
        new = {_absolute(each.path): each for each in sources if _absolute(each.path) not in self._given}
        self._sources |= new
        levels = dict.fromkeys(new, _SHORT)
        if self._folder is None:
            levels |= dict.fromkeys(_twins(new), _FULL)
        common = Path(os.path.commonpath([path.parent for path in self._sources] or [Path("/")]))
        while True:
            names = {path: self._name(path, level, common) for path, level in levels.items()}
            more = [path for path in self._clashing(names) if levels[path] < self._most]
            if not more:
                break
            for path in more:
                levels[path] += 1
        self._given |= names
        self._taken |= {_key(name) for name in names.values()}
        return [new[path].path for path, level in levels.items() if level > _SHORT]

    @property
    def _most(self) -> int:
        return _FULL if self._folder is None else _FAR

    def _name(self, path: Path, level: int, common: Path) -> Path:
        if level == _FAR and self._folder is not None:
            return self._folder / path.relative_to(common)
        source = self._sources[path]
        folder = source.path.parent if self._folder is None else self._folder / source.below
        return folder / (path.stem if level == _SHORT else path.name)

    def _clashing(self, names: dict[Path, Path]) -> list[Path]:
        """An output must not take the place of a document either."""
        counted = Counter(map(_key, names.values()))
        documents = {_key(path) for path in self._sources}
        return [
            path
            for path, name in names.items()
            if counted[_key(name)] > 1
            or _key(name) in self._taken
            or any(_key(name.with_name(name.name + suffix)) in documents for suffix in self._suffixes)
        ]


def _twins(paths: Iterable[Path]) -> set[Path]:
    """Those beside which lies another document of the same name but for its ending."""
    stems: dict[Path, Counter[str]] = {}
    for folder in {path.parent for path in paths}:
        try:
            names = [Path(entry.name) for entry in os.scandir(folder)]
        except OSError:
            names = []
        documents = [name for name in names if name.suffix.lower() in sniffing.SUFFIXES]
        stems[folder] = Counter(name.stem.casefold() for name in documents)
    return {path for path in paths if stems[path.parent][path.stem.casefold()] > 1}


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - `..` goes, links stay


def _key(path: Path) -> str:
    """Some file systems do not tell Scan from scan."""
    return str(_absolute(path)).casefold()
