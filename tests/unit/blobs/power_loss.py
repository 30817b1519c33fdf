"""Watches file operations and tells what a power cut would leave, if the disk kept nothing that was not synced."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Disk:
    """Folders and files by inode: what they hold, and what of it was synced."""

    root: int
    names: dict[int, dict[str, int]] = field(default_factory=dict)
    synced_names: dict[int, dict[str, int]] = field(default_factory=dict)
    unsynced_files: set[int] = field(default_factory=set)
    steps: list[str] = field(default_factory=list)
    half_visible: list[str] = field(default_factory=list)

    def survives(self, *path: str) -> bool:
        """Whether the path, and the content at its end, would be there after a power cut now."""
        inode = self.root
        for name in path:
            below = self.synced_names.get(inode, {})
            if name not in below:
                return False
            inode = below[name]
        return inode not in self.unsynced_files

    def note(self, step: str) -> None:
        self.steps.append(step)
        # A disk may keep a new name before it is asked to: whoever sees one under blobs/ must find all its bytes.
        self.half_visible += [
            f"{name} after {step}"
            for folder in self.names.values()
            for name, inode in folder.items()
            if len(name) == 64 and inode in self.unsynced_files
        ]


@contextmanager
def watched(root: Path) -> Iterator[Disk]:
    """Record what happens below an existing folder, which itself is taken for durable."""
    disk = Disk(root.stat().st_ino)
    with pytest.MonkeyPatch.context() as patch:
        for name, wrap in _WRAPPERS.items():
            patch.setattr(os, name, wrap(disk, getattr(os, name)))
        yield disk


Call = Callable[..., Any]


def _mkdir(disk: Disk, real: Call) -> Call:
    def mkdir(path: str | Path, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        real(path, mode, dir_fd=dir_fd)
        folder = Path(path).parent.stat() if dir_fd is None else os.fstat(dir_fd)
        disk.names.setdefault(folder.st_ino, {})[Path(path).name] = os.stat(path, dir_fd=dir_fd).st_ino
        disk.note("mkdir")

    return mkdir


def _open(disk: Disk, real: Call) -> Call:
    def opened(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        fd: int = real(path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_CREAT and dir_fd is not None:
            inode = os.fstat(fd).st_ino
            disk.names.setdefault(os.fstat(dir_fd).st_ino, {})[path] = inode
            disk.unsynced_files.add(inode)
            disk.note("create")
        return fd

    return opened


def _write(disk: Disk, real: Call) -> Call:
    def write(fd: int, data: bytes) -> int:
        disk.unsynced_files.add(os.fstat(fd).st_ino)
        written: int = real(fd, data)
        disk.note("write")
        return written

    return write


def _fsync(disk: Disk, real: Call) -> Call:
    def fsync(fd: int) -> None:
        real(fd)
        inode = os.fstat(fd).st_ino
        disk.unsynced_files.discard(inode)
        disk.synced_names[inode] = dict(disk.names.get(inode, {}))
        disk.note("fsync")

    return fsync


def _rename(disk: Disk, real: Call) -> Call:
    def rename(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        real(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        inode = disk.names[os.fstat(src_dir_fd).st_ino].pop(source)
        disk.names.setdefault(os.fstat(dst_dir_fd).st_ino, {})[target] = inode
        disk.note("rename")

    return rename


_WRAPPERS: dict[str, Callable[[Disk, Call], Call]] = {
    "mkdir": _mkdir,
    "open": _open,
    "write": _write,
    "fsync": _fsync,
    "rename": _rename,
}
