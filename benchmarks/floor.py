"""The least that a durable queue on SQLite can do: bare SQL in batches, without history, jobs, lanes or fences."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import apsw

_SCHEMA = """
CREATE TABLE floor (seq INTEGER PRIMARY KEY, status TEXT NOT NULL, payload TEXT, result TEXT);
CREATE INDEX floor_ready ON floor (seq) WHERE status = 'pending';
"""
_SUBMIT = "INSERT INTO floor (status, payload) SELECT 'pending', value FROM json_each(?)"
_CLAIM = """
UPDATE floor SET status = 'running'
WHERE seq IN (SELECT seq FROM floor WHERE status = 'pending' ORDER BY seq LIMIT ?) RETURNING seq
"""
_COMPLETE = """
UPDATE floor SET status = 'completed', result = '{"ok":true}' WHERE seq IN (SELECT value FROM json_each(?))
"""


class Floor:
    """One connection with the same durability as the ledger's."""

    def __init__(self, path: Path) -> None:
        self._db = apsw.Connection(str(path))
        self._db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        self._db.execute(_SCHEMA)
        self._held: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def fill(self, count: int) -> float:
        batch = json.dumps([json.dumps({"page": page}) for page in range(1000)])
        began = time.perf_counter()
        for _ in range(0, count, 1000):
            self._db.execute(_SUBMIT, (batch,))
        return count / (time.perf_counter() - began)

    def step(self, batch: int) -> int:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute(_COMPLETE, (json.dumps(self._held),))
        self._held = [row[0] for row in self._db.execute(_CLAIM, (batch,))]
        self._db.execute("COMMIT")
        return len(self._held)
