"""A limit in tables: in a file, or on a PostgreSQL server."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import psycopg

from chaos.limits.slow import Locker
from chaos.limits.stage import MOST_CLEARED, ServerStage, Stage
from chaos.limits.steps import Counts, RowSteps, Steps
from tests.servers.server import Server

_TABLES = ("limits", "limit_sessions", "limit_calls", "limit_runs", "limit_tails", "limit_windows")
_ROWS = {"sessions": "limit_sessions", "calls": "limit_calls", "line": "limit_runs", "tails": "limit_tails"}
_NUMBERS = ", ".join(f"(SELECT count(*) FROM {{prefix}}{table})" for table in _ROWS.values())
_LOOK = f"SELECT version, head, {_NUMBERS} FROM {{prefix}}limits"
_NAMING = {"id", "environment", "name"}


class SqliteStage(Stage):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._file = folder / "limits.db"
        self.address = f"sqlite:///{self._file.absolute()}"
        self._blocker: apsw.Connection | None = None
        self._locker: Locker | None = None

    def go_away(self) -> None:
        self._blocker = apsw.Connection(str(self._file))
        self._blocker.set_busy_timeout(5000)
        assert self._blocker.pragma("journal_mode") == "wal"
        self._blocker.execute("BEGIN EXCLUSIVE")

    def come_back(self) -> None:
        self.close()

    def forget(self) -> None:
        self._file.unlink()
        for suffix in ("-wal", "-shm"):
            self._file.with_name(self._file.name + suffix).unlink(missing_ok=True)

    def slow_down(self, answers_s: tuple[float, float]) -> None:
        self._locker = Locker(self._file, answers_s)

    def speed_up(self) -> None:
        if self._locker is not None:
            self._locker.end()
            self._locker = None

    def contents(self) -> dict[str, int]:
        return _contents(*self._look(_LOOK.format(prefix=""))[0])

    def watch_steps(self) -> Steps:
        return RowSteps(lambda: _version_and_sessions(*self._look(_LOOK.format(prefix=""))[0]), MOST_CLEARED)

    def _look(self, query: str) -> list[tuple[Any, ...]]:
        connection = apsw.Connection(str(self._file), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(5000)
            return [*connection.execute(query)]
        finally:
            connection.close()

    def close(self) -> None:
        self.speed_up()
        if self._blocker is not None:
            self._blocker.close()
            self._blocker = None


class PostgresStage(ServerStage):
    """Its commits are asynchronous: what a kill leaves of the last moments is up to the WAL writer, which is slow here.

    What is asked of the server is short, as it answers many others meanwhile.
    """

    def __init__(self, folder: Path, server: Server) -> None:
        super().__init__(folder, server)
        self._run("ALTER SYSTEM SET wal_writer_delay = '10s'")
        self._run("SELECT pg_reload_conf()")

    def _run(self, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.address, autocommit=True, connect_timeout=5) as admin:
            done = admin.execute(statement, arguments or None)
            return done.fetchall() if done.description else []

    def forget(self) -> None:
        self._run("DROP TABLE forebay_limits")

    def crash(self) -> None:
        self._server.kill()
        self._server.start()

    def contents(self) -> dict[str, int]:
        return _contents(*self._run(_LOOK.format(prefix="forebay_"))[0])

    def watch_steps(self) -> Steps:
        look = psycopg.connect(self.address, autocommit=True)

        def counts() -> Counts:
            found = look.execute(_LOOK.format(prefix="forebay_")).fetchone()
            assert found is not None
            return _version_and_sessions(*found)

        return RowSteps(counts, MOST_CLEARED, close=look.close)

    def keep(self) -> None:
        """Of one instant: an exchange changes several tables."""
        steps = ["BEGIN ISOLATION LEVEL REPEATABLE READ"]
        for table in _TABLES:
            steps += [
                f"DROP TABLE IF EXISTS kept_{table}",
                f"CREATE TABLE kept_{table} AS SELECT * FROM forebay_{table}",
            ]
        self._run("; ".join([*steps, "COMMIT"]))

    def roll_back(self) -> None:
        """All tables in one transaction, with the limit locked as its exchanges lock it."""
        is_newer = "SELECT 1 FROM forebay_limits AS l JOIN kept_limits AS k USING (id) WHERE l.version > k.version"
        while not self._run(is_newer):
            pass
        names = self._run("SELECT column_name FROM information_schema.columns WHERE table_name = 'kept_limits'")
        fields = ", ".join(f'"{name}"' for (name,) in names if name not in _NAMING)
        steps = [
            "BEGIN",
            "SELECT FROM forebay_limits FOR UPDATE",
            f"UPDATE forebay_limits AS l SET ({fields}) = (SELECT {fields} FROM kept_limits AS k WHERE k.id = l.id)",
        ]
        for table in _TABLES[1:]:
            steps += [f"DELETE FROM forebay_{table}", f"INSERT INTO forebay_{table} SELECT * FROM kept_{table}"]
        self._run("; ".join([*steps, "COMMIT"]))

    def _signal(self, what: signal.Signals) -> None:
        """Each of its connections is a process."""
        super()._signal(what)
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                if int(stat.read_text(errors="replace").rpartition(")")[2].split()[1]) == self._server.pid:
                    os.kill(int(stat.parent.name), what)


def _contents(_: int, head: str, *row_counts: int) -> dict[str, int]:
    """Count the parts of a limit: they lie in the header of a small one, and in rows of a large one."""
    parts = json.loads(head).get("parts")
    if parts is None:
        return dict(zip(_ROWS, row_counts, strict=True))
    sessions = parts["sessions"].values()
    counts = (
        len(sessions),
        *(sum(len(each[part]) for each in sessions) for part in ("calls", "runs")),
        len(parts["tails"]),
    )
    return dict(zip(_ROWS, counts, strict=True))


def _version_and_sessions(version: int, head: str, *row_counts: int) -> Counts:
    return version, _contents(version, head, *row_counts)["sessions"]
