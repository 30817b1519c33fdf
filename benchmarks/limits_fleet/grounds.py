"""Starts the limit stores that are measured, empties them, and watches what they do meanwhile."""

from __future__ import annotations

import resource
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psycopg

from benchmarks.limiting.server import ServerTime
from benchmarks.limits_fleet.processes import cpu_of_tree_s, prefer
from tests.servers.fresh import fresh_database
from tests.servers.postgres import postgres
from tests.servers.server import Server
from tests.servers.valkey import valkey

STORES = ("redis", "postgres", "sqlite")
_CONNECTIONS = 1000
_LOOK_S = 0.2


@dataclass(slots=True)
class Reading:
    """What a store did in a span; `server_us` is the server's own time for each of its `scripts`."""

    cpu_s: float = 0.0
    connections: int | None = None
    scripts: int | None = None
    server_us: float | None = None
    more: dict[str, float] = field(default_factory=dict)


class Watch(Protocol):
    """Opened after the fork; `read` tells of what was since the last `restart`."""

    def restart(self) -> None: ...

    def read(self) -> Reading: ...

    def close(self) -> None: ...


class Ground(Protocol):
    name: str

    def place(self) -> AbstractContextManager[str]:
        """An empty place on the store, by its address."""

    def watch(self) -> Watch: ...


class Redis:
    name = "redis"

    def __init__(self, server: Server) -> None:
        self._server = server
        prefer(server.pid)

    @contextmanager
    def place(self) -> Iterator[str]:
        server = ServerTime(self._server.url)
        server.empty()
        server.close()
        yield self._server.url

    def watch(self) -> Watch:
        return _RedisWatch(self._server)


class _RedisWatch:
    def __init__(self, server: Server) -> None:
        self._server = ServerTime(server.url)
        self.restart()

    def restart(self) -> None:
        self._server.restart()
        self._used_s = self._server.cpu_s

    def read(self) -> Reading:
        scripts = self._server.scripts()
        return Reading(
            cpu_s=self._server.cpu_s - self._used_s,
            connections=self._server.connections,
            scripts=scripts.calls,
            server_us=scripts.usec / scripts.calls if scripts.calls else None,
        )

    def close(self) -> None:
        self._server.close()


class Postgres:
    name = "postgres"

    def __init__(self, server: Server) -> None:
        self._server = server
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET max_connections = {_CONNECTIONS}")
        server.stop()
        server.start()
        prefer(server.pid)
        self._url = server.url

    @contextmanager
    def place(self) -> Iterator[str]:
        with fresh_database(self._server) as address:
            self._url = address
            yield address

    def watch(self) -> Watch:
        return _PostgresWatch(self._url, self._server.pid)


class _PostgresWatch:
    """Looks some times a second how many connections wait for a lock."""

    _LOOK = """
    SELECT count(*) FILTER (WHERE wait_event_type = 'Lock'), count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
    """

    def __init__(self, address: str, pid: int) -> None:
        self._pid = pid
        self._connection = psycopg.connect(address, autocommit=True)
        self._ends = threading.Event()
        self._seen: list[tuple[int, int]] = []
        self.restart()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ends.wait(_LOOK_S):
            found = self._connection.execute(self._LOOK).fetchone()
            if found is not None:
                self._seen.append(found)

    def restart(self) -> None:
        self._seen = []
        self._used_s = cpu_of_tree_s(self._pid)

    def read(self) -> Reading:
        seen = [*self._seen] or [(0, 0)]
        waiting = [each for each, _ in seen]
        return Reading(
            cpu_s=cpu_of_tree_s(self._pid) - self._used_s,
            connections=max(all_of_them for _, all_of_them in seen),
            more={"waiting for a lock, mean": sum(waiting) / len(waiting), "most": max(waiting)},
        )

    def close(self) -> None:
        self._ends.set()
        self._thread.join()
        self._connection.close()


class Sqlite:
    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def place(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as folder:
            yield f"sqlite:///{folder}/limits.db"

    def watch(self) -> Watch:
        return _NoServer()


class _NoServer:
    def restart(self) -> None:
        pass

    def read(self) -> Reading:
        return Reading()

    def close(self) -> None:
        pass


@contextmanager
def grounds(names: list[str]) -> Iterator[dict[str, Ground]]:
    """Real servers of our own, with more of the processor than their clients, as if they had a machine of their own."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        found: dict[str, Ground] = {}
        if "redis" in names:
            found["redis"] = Redis(stack.enter_context(valkey(own=True)))
        if "postgres" in names:
            found["postgres"] = Postgres(stack.enter_context(postgres(own=True, durable=True)))
        if "sqlite" in names:
            temporary = tempfile.TemporaryDirectory(prefix="forebay-bench-", ignore_cleanup_errors=True)
            found["sqlite"] = Sqlite(Path(stack.enter_context(temporary)))
        yield found
