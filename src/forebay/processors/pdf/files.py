"""Whole files by their descriptors."""

from __future__ import annotations

import os


def contents_of(fd: int) -> bytes:
    """All of a file; its position stays where it is."""
    size = os.fstat(fd).st_size
    parts = []
    at = 0
    while at < size:
        part = os.pread(fd, size - at, at)
        if not part:
            break
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def write(fd: int, data: bytes, at: int = 0) -> None:
    """All of the data from a place on, however little is taken at once."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, at)
        view, at = view[written:], at + written
