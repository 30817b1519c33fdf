"""Copies the rows of a ledger in PostgreSQL into a SQLite file, where the judge reads them by SQL of its own."""

from __future__ import annotations

from pathlib import Path

import apsw
import psycopg

_TABLES = ("tasks", "history", "jobs", "events", "audit")
_STORED = {"tasks": "present"}  # what runs is kept apart


def copy(address: str, file: Path) -> None:
    target = apsw.Connection(str(file))
    with psycopg.connect(address) as source, target:
        for table in _TABLES:
            found = source.execute(f"SELECT * FROM forebay_{_STORED.get(table, table)}".encode())
            names = [column.name for column in found.description or ()]
            target.execute(f"CREATE TABLE {table} ({', '.join(names)})")
            places = ", ".join("?" * len(names))
            target.executemany(f"INSERT INTO {table} VALUES ({places})", found.fetchall())
        target.execute("CREATE TABLE payloads AS SELECT seq AS task_seq, payload FROM tasks WHERE payload IS NOT NULL")
        target.execute("CREATE TABLE results AS SELECT seq AS task_seq, result FROM tasks WHERE result IS NOT NULL")
    target.close()
