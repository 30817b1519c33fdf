"""Reads and replaces the rows of limits: each write names the version that it was made from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import apsw

from forebay.errors import StoreCorrupt
from forebay.model.limit_record import Record
from forebay.stores.sqlite.boot_clock import Moment, passed

_READ = "SELECT version, record, raw, boot, ticks, wall FROM limits WHERE environment = ? AND name = ?"
_NAMES = "SELECT name FROM limits WHERE environment = ? ORDER BY name"
_ADD = """
INSERT INTO limits (version, record, raw, boot, ticks, wall, environment, name) VALUES (1, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""
_REPLACE = """
UPDATE limits SET version = version + 1, record = ?, raw = ?, boot = ?, ticks = ?, wall = ?
WHERE environment = ? AND name = ? AND version = ?
"""
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Key(NamedTuple):
    environment: str
    name: str


class Row(NamedTuple):
    """A record as it was written at a moment, when the clock of the rules said `raw`; version 0 where there is none."""

    version: int
    record: Record | None
    raw: int
    at: Moment

    def raw_at(self, now: Moment) -> int:
        return self.raw + passed(self.at, now)


def read(db: apsw.Connection, key: Key) -> Row | None:
    # All rows are fetched: a statement that is not at its end keeps the file as it was for its connection.
    found: list[Any] = db.execute(_READ, key).fetchall()
    if not found:
        return None
    version, text, raw, *moment = found[0]
    try:
        record = json.loads(text)
    except ValueError as error:
        raise StoreCorrupt(
            f"The record of limit {key.name!r} cannot be read: {error}.",
            remedy="Stop what uses the file and remove it: limits are then learned anew.",
        ) from error
    return Row(version, record, raw, Moment(*moment))


def write(db: apsw.Connection, key: Key, record: Record, raw: int, now: Moment, *, version: int) -> bool:
    """Whether the row still was at that version, 0 being none; one statement, and so a transaction of its own."""
    values = (_encode(record), raw, *now, *key)
    if version:
        db.execute(_REPLACE, (*values, version))
    else:
        db.execute(_ADD, values)
    return db.changes() == 1


@contextmanager
def writing(db: apsw.Connection) -> Iterator[None]:
    """A transaction that no other writes beside."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def names(db: apsw.Connection, environment: str) -> list[str]:
    found: list[Any] = db.execute(_NAMES, (environment,)).fetchall()
    return [name for (name,) in found]
