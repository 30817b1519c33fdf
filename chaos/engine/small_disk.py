"""A disk of a few megabytes that only this run sees, and that fills up now and then."""

from __future__ import annotations

import ctypes
import errno
import os
import random
import sys
import time
from contextlib import suppress
from pathlib import Path

from chaos.journal import Journal

_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000
_PRIVATE_BELOW = 0x4000 | 0x40000
_DETACH = 2
_PIECE = b"\0" * 65_536
FULL_S = (1.0, 9.0)
FREE_S = (2.0, 14.0)


def mount(folder: Path, megabytes: int) -> None:
    """Mount a small disk in a namespace of this process; call it before any thread is started.

    The disk is gone when the last process of the run ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    _check(libc.unshare(_NEW_MOUNTS if user == 0 else _NEW_USER | _NEW_MOUNTS))
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _check(libc.mount(b"none", b"/", None, ctypes.c_ulong(_PRIVATE_BELOW), None))
    options = f"size={megabytes}m,mode=0700".encode()
    _check(libc.mount(b"none", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(0), options))


def unmount(folder: Path) -> None:
    _check(ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(folder), _DETACH))


def _check(answer: int) -> None:
    if answer:
        number = ctypes.get_errno()
        sys.exit(
            f"chaos: this machine lets nobody mount a small disk ({errno.errorcode.get(number, number)}): "
            "run as root, or where user namespaces are allowed."
        )


class Filler:
    """Fills the disk to its last byte for some seconds, and frees it again."""

    def __init__(self, disk: Path, journal: Journal, chance: random.Random) -> None:
        self._file = disk / "filler"
        self._journal = journal
        self._chance = chance
        self._turns_at = time.monotonic() + chance.uniform(*FREE_S)
        self._is_full = False

    def look(self) -> None:
        """Fill or free the disk when it is time."""
        if self._is_full:
            self._fill()  # what others have freed meanwhile
        if time.monotonic() < self._turns_at:
            return
        if self._is_full:
            self.free()
        else:
            self._journal.note("disk full")  # first: others are refused before the last byte is written
            self._fill()
            self._is_full = True
            self._turns_at = time.monotonic() + self._chance.uniform(*FULL_S)

    def free(self) -> None:
        if self._is_full:
            self._file.unlink()
            self._journal.note("disk free")
        self._is_full = False
        self._turns_at = time.monotonic() + self._chance.uniform(*FREE_S)

    def _fill(self) -> None:
        handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for piece in (_PIECE, _PIECE[:512], _PIECE[:1]):
                with suppress(OSError):
                    while os.write(handle, piece):
                        pass
        finally:
            os.close(handle)
