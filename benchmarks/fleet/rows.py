"""Looks into an engine's tables on PostgreSQL, on a connection of its own."""

from __future__ import annotations

from typing import LiteralString

import psycopg


class Rows:
    """`todo` names a table and the condition of what is left to do; `ended` counts endings and the tasks that did."""

    def __init__(self, address: str, *, todo: LiteralString, ended: LiteralString) -> None:
        self._connection = psycopg.connect(address, autocommit=True)
        self._todo, self._ended = todo, ended

    def is_complete(self) -> bool:
        return self._connection.execute(f"SELECT 1 FROM {self._todo} LIMIT 1").fetchone() is None

    def waiting(self) -> int:
        found = self._connection.execute(f"SELECT count(*) FROM {self._todo}").fetchone()
        assert found is not None
        return int(found[0])

    def ended(self) -> tuple[int, int]:
        found = self._connection.execute(self._ended).fetchone()
        assert found is not None
        return int(found[0]), int(found[1])

    def close(self) -> None:
        self._connection.close()


def settle(address: str) -> None:
    """Statistics as autovacuum would have made them, and no checkpoint due: alike for every engine."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("ANALYZE")
        connection.execute("CHECKPOINT")
