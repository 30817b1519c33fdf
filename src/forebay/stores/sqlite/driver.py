"""Runs steps on a SQLite connection, statement by statement: here a batch is only a list."""

from __future__ import annotations

from typing import Any, TypeVar

import apsw

from forebay.stores.sql.statement import Statement, Steps, encode
from forebay.stores.sqlite.queries import QUERIES

T = TypeVar("T")


def drive(db: apsw.Connection, steps: Steps[T], now: float) -> T:
    try:
        batch = next(steps)
        while True:
            batch = steps.send([_rows(db, statement, now) for statement in batch.statements])
    except StopIteration as end:
        answer: T = end.value
        return answer


def _rows(db: apsw.Connection, statement: Statement, now: float) -> list[Any]:
    """All rows of a statement; lists are passed as JSON."""
    name, arguments = statement
    bound: dict[str, Any] = {
        key: encode(value) if isinstance(value, list) else value for key, value in arguments.items()
    }
    if name.startswith("list_"):
        text = QUERIES.listing(name, frozenset(key for key, value in arguments.items() if value is not None))
    else:
        text = QUERIES.text(name)
    bound["now"] = now
    return list(db.execute(text, bound))
