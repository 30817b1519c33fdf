"""Runs the demonstration as a process, and remembers every process that came of it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

GONE_WITHIN_S = 5.0
_LOOK_S = 0.1


def _processes() -> dict[int, tuple[int, str]]:
    """Each with its parent and the instant of its start, without those that only wait to be reaped."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = entry.read_text().rpartition(")")[2].split()
            if fields[0] not in "ZX":
                found[int(entry.parent.name)] = (int(fields[1]), fields[19])
    return found


class Descendants(threading.Thread):
    """Of a process: all that are seen while it lives, and those of them that are left."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._seen: dict[int, str] = {}
        self._roots = {pid}
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.wait(_LOOK_S):
            self._look()

    def _look(self) -> None:
        running = _processes()
        known = self._roots | {pid for pid, began in self._seen.items() if running.get(pid, (0, ""))[1] == began}
        while more := {pid for pid, (parent, _) in running.items() if parent in known and pid not in known}:
            self._seen |= {pid: running[pid][1] for pid in more}
            known |= more

    @property
    def count(self) -> int:
        return len(self._seen)

    def left(self) -> list[int]:
        ends_at = time.monotonic() + GONE_WITHIN_S
        while True:
            running = _processes()
            found = [pid for pid, began in self._seen.items() if running.get(pid, (0, ""))[1] == began]
            if not found or time.monotonic() > ends_at:
                return found
            time.sleep(_LOOK_S)


@contextmanager
def demo(folder: Path, *options: str, encoding: str = "utf-8") -> Iterator[subprocess.Popen[str]]:
    """With the folder for its temporary files."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
    environment = kept | {"TMPDIR": str(folder), "PYTHONIOENCODING": encoding}
    command = [sys.executable, "-m", "forebay", "demo", "--quick", *options]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
