"""Finds everything that a child process has started, wherever it has gone, and kills it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

MARK = "FOREBAY_CHILD"
_PROC = Path("/proc")


def family(pid: int, mark: str) -> set[int]:
    """The process, its descendants, and all that carry its mark: also those in sessions of their own.

    Without /proc only the process itself is found, and its group has to do.
    """
    parents: dict[int, int] = {}
    found = {pid}
    wanted = f"{MARK}={mark}".encode()
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if not entry.name.isdecimal():
            continue
        with suppress(OSError, ValueError, IndexError):
            state, parent = (entry / "stat").read_text("latin-1").rpartition(")")[2].split()[:2]
            if state in "ZX":
                continue
            parents[int(entry.name)] = int(parent)
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.add(int(entry.name))
    grown = True
    while grown:
        more = {child for child, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found - {os.getpid()}


def send(pids: Iterable[int], how: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, how)


def send_group(pid: int, how: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, how)


def alive(pids: Iterable[int]) -> set[int]:
    """Those that still run; a zombie does not."""
    left = set()
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, 0)
            if not _zombie(pid):
                left.add(pid)
    return left


def _zombie(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return (_PROC / str(pid) / "stat").read_text("latin-1").rpartition(")")[2].split()[0] in "ZX"
    return False
