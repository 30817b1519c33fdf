"""A file beside an output while it is written; what a process that was killed has left of it goes with the next one."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_MAKE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MODE = 0o666


@contextmanager
def draft(target: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Gone when the block ends, unless it was given the target's name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    path, descriptor = _made(target)
    with os.fdopen(descriptor, "w+b") as file:
        try:
            yield path, file
        finally:
            # Once it has the target's name, the old one may be somebody else's.
            if _has_name(descriptor, path):
                with suppress(OSError):
                    path.unlink()


def path_of(target: Path, number: int = 0) -> Path:
    """Always the same for an output, so that nobody has to search a folder for what was left behind."""
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]
    return target.with_name(f".forebay-{name}-{number}")


def _made(target: Path) -> tuple[Path, int]:
    """Locked as long as it is open: by that, one that somebody writes differs from one that was left behind."""
    number = 0
    while True:
        path = path_of(target, number)
        if os.path.lexists(path) and not _removed(path):
            number += 1
            continue
        with suppress(FileExistsError):
            descriptor = os.open(path, _MAKE, _MODE)
            with suppress(OSError):  # where there are no locks, or somebody has just taken it for a leftover
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _has_name(descriptor, path):
                return path, descriptor
            os.close(descriptor)


def _removed(path: Path) -> bool:
    """Whether nobody writes it; then it is gone."""
    try:
        descriptor = os.open(path, _LOOK)
    except OSError:
        return not os.path.lexists(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _has_name(descriptor, path):
            path.unlink()
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def _has_name(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
