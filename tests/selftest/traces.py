"""Looks for what a server left behind."""

import os
import time
from contextlib import suppress
from pathlib import Path

GONE_WITHIN_S = 10.0


def traces(pid: int, paths: list[Path]) -> list[str]:
    """The server, its folder (the first path) and other files, and processes that work in the folder."""
    found = [f"process {pid}"] if is_alive(pid) else []
    found += [str(path) for path in paths if path.exists()]
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            inside = (process / "cwd").readlink().is_relative_to(paths[0])
            if inside or os.fsencode(paths[0]) in (process / "cmdline").read_bytes():
                found.append(f"process {process.name}")
    return found


def wait_until_gone(pid: int, paths: list[Path]) -> None:
    deadline = time.monotonic() + GONE_WITHIN_S
    while left := traces(pid, paths):
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
