"""Huey's side: one task that does nothing, results stored, in an SQLite file that syncs every commit."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import apsw
from huey import SqliteHuey  # type: ignore[import-not-found]  # only in the environment for benchmarks
from huey.consumer import Consumer  # type: ignore[import-not-found]  # same

from benchmarks.work import marks
from benchmarks.work.ours import LEDGER

SETTINGS = "fsync=True (synchronous=FULL), journal_mode=wal, results=True"
_marks = marks.of_process()


def _noop(index: int) -> bool:
    if _marks is not None:
        _marks.note(index)
    return True


def connect(file: Path, *, fsync: bool = True) -> tuple[Any, Any]:
    """The queue, and the task to call."""
    huey = SqliteHuey("bench", filename=str(file), fsync=fsync)
    return huey, huey.task()(_noop)


def work(workers: int, worker_type: str, delay_s: float) -> None:
    logging.getLogger("huey").setLevel(logging.CRITICAL)
    huey, _ = connect(Path(os.environ[LEDGER]))
    timing = {"initial_delay": delay_s, "max_delay": delay_s, "backoff": 1.0}
    Consumer(huey, workers=workers, worker_type=worker_type, periodic=False, **timing).run()


def fill(file: Path, count: int) -> None:
    """Without syncs: only the working is measured."""
    huey, task = connect(file, fsync=False)
    for index in range(count):
        task(index)
    huey.storage.close()


class Recorded:
    """Looks into the file from outside, after the last handler has begun."""

    def __init__(self, file: Path) -> None:
        self._db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)

    def complete(self, count: int) -> bool:
        return self._count("kv") == count

    def verified(self, count: int) -> bool:
        return self._count("kv") == count and self._count("task") == 0

    def _count(self, table: str) -> int:
        return len(self._db.execute(f"SELECT 1 FROM {table}").fetchall())

    def close(self) -> None:
        self._db.close()
