"""Looks into Forebay's file of SQLite from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw


class SqliteRows:
    """`once` is the condition of a task that ran a single time."""

    def __init__(self, file: Path, once: str) -> None:
        self._once = once
        self._db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)
        self._db.set_busy_timeout(5000)

    def is_complete(self) -> bool:
        return not self._db.execute("SELECT 1 FROM tasks WHERE status IN ('pending', 'running') LIMIT 1").fetchall()

    def waiting(self) -> int:
        return len(self._db.execute("SELECT 1 FROM tasks WHERE status = 'pending'").fetchall())

    def ended(self) -> tuple[int, int]:
        asked = f"SELECT count(*), sum({self._once}) FROM tasks WHERE status = 'completed'"
        found: Any = self._db.execute(asked).fetchone()
        return found[0], found[1] or 0

    def close(self) -> None:
        self._db.close()
