"""Enters folders below one root without following links, and makes new ones that survive a power cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forebay.blobs.os_errors import MISPLACED

_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MODE = 0o700
_MAX_KNOWN = 20_000


class Tree:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._durable: set[tuple[str, ...]] = set()

    @contextmanager
    def folder(self, *names: str, create: bool = False) -> Iterator[int]:
        """The descriptor of a folder; with `create`, it and all above it are durable."""
        current = self._walk(names, create=create)
        try:
            yield current
        finally:
            os.close(current)

    @contextmanager
    def existing(self, *names: str) -> Iterator[int | None]:
        """None where there is no such folder: nothing, a link, or a file."""
        try:
            current = self._walk(names, create=False)
        except OSError as error:
            if not isinstance(error, FileNotFoundError) and error.errno not in MISPLACED:
                raise
            yield None
            return
        try:
            yield current
        finally:
            os.close(current)

    def _walk(self, names: tuple[str, ...], *, create: bool) -> int:
        current = self._enter(None, (), create=create)
        for depth in range(1, len(names) + 1):
            above = current
            try:
                current = self._enter(above, names[:depth], create=create)
            finally:
                os.close(above)
        return current

    def _enter(self, parent: int | None, path: tuple[str, ...], *, create: bool) -> int:
        if create:
            self._make(parent, path)
        try:
            return self._open(parent, path)
        except FileNotFoundError:
            if not create:
                raise
        # We made it once, and somebody took it away.
        self._durable.discard(path)
        self._make(parent, path)
        return self._open(parent, path)

    def _open(self, parent: int | None, path: tuple[str, ...]) -> int:
        if parent is None:
            return os.open(self._root, _ENTER)
        return os.open(path[-1], _ENTER | os.O_NOFOLLOW, dir_fd=parent)

    def _make(self, parent: int | None, path: tuple[str, ...]) -> None:
        if path in self._durable:
            return
        # An existing folder may be new too, by a process that has not synced it yet: sync whatever we did not.
        if parent is None:
            _make_durably(self._root)
        else:
            with suppress(FileExistsError):
                os.mkdir(path[-1], _MODE, dir_fd=parent)
            os.fsync(parent)
        if len(self._durable) >= _MAX_KNOWN:
            self._durable.clear()
        self._durable.add(path)


def _make_durably(path: Path) -> None:
    try:
        path.mkdir(_MODE)
    except FileExistsError:
        pass
    except FileNotFoundError:
        _make_durably(path.parent)
        path.mkdir(_MODE, exist_ok=True)
    _sync_parent(path)


def _sync_parent(path: Path) -> None:
    try:
        parent = os.open(path.parent, _ENTER)
    except PermissionError:
        # A parent that we may not read is not one in which we made something.
        return
    try:
        os.fsync(parent)
    finally:
        os.close(parent)
