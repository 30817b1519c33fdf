"""The servers that all contenders share, and an empty place on them for each measurement."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.fleet.orders import Contender, Orders
from benchmarks.limiting.server import ServerTime
from tests.servers.fresh import fresh_database
from tests.servers.postgres import postgres
from tests.servers.server import Server
from tests.servers.valkey import valkey


@dataclass(frozen=True)
class Ground:
    postgres: Server
    valkey: Server
    folder: Path

    @property
    def versions(self) -> str:
        with psycopg.connect(self.postgres.url) as connection:
            found = [connection.execute(f"SHOW {name}").fetchone() for name in ("server_version", "fsync")]
        redis = ServerTime(self.valkey.url)
        said = f"PostgreSQL {found[0] and found[0][0]} (fsync {found[1] and found[1][0]}), {redis.version}"
        redis.close()
        return said

    @contextmanager
    def place(
        self, contender: Contender, *, in_flight: int = 0, provider: str = "", work_s: float = 0.0
    ) -> Iterator[Orders]:
        """A database, file or server with nothing in it."""
        with ExitStack() as stack:
            temporary = stack.enter_context(tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True))
            address = self._empty(contender.store, "bench.db", temporary, stack)
            same = contender.limits == contender.store and contender.store == "PostgreSQL"
            limits = address if same else self._empty(contender.limits, "limits.db", temporary, stack)
            yield Orders(
                side=contender.side,
                address=address,
                folder=temporary,
                limits=limits,
                options=contender.options,
                in_flight=in_flight,
                provider=provider,
                work_s=work_s,
            )

    def _empty(self, store: str, file: str, folder: str, stack: ExitStack) -> str:
        match store:
            case "PostgreSQL":
                return stack.enter_context(fresh_database(self.postgres))
            case "Redis":
                server = ServerTime(self.valkey.url)
                server.empty()
                server.close()
                return self.valkey.url
            case "SQLite":
                return f"sqlite:///{folder}/{file}"
            case _:
                return ""


@contextmanager
def ground() -> Iterator[Ground]:
    """Every acknowledged commit of PostgreSQL is synced; Valkey holds only limits, and Docket's tasks in memory."""
    with (
        postgres(own=True, durable=True) as database,
        valkey(own=True) as redis,
        tempfile.TemporaryDirectory(prefix="forebay-bench-", ignore_cleanup_errors=True) as temporary,
    ):
        yield Ground(database, redis, Path(temporary))


def load() -> float:
    return round(os.getloadavg()[0], 1)
