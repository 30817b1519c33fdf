"""The store of one scenario, fresh, and what can befall it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import psycopg

from tests.servers.clients import redis_client
from tests.servers.postgres import postgres
from tests.servers.sentinel import SentinelTrio, sentinel_trio
from tests.servers.server import Server
from tests.servers.valkey import valkey
from tests.servers.valkey_cluster import ValkeyCluster, valkey_cluster

STORES = ("memory", "sqlite", "redis", "postgres", "sentinel", "cluster")
_TABLES = ("limits", "limit_sessions", "limit_calls", "limit_runs", "limit_tails", "limit_windows")
_KEY = "{forebay:chaos:chaos}:limit"


class Stage:
    """What a store cannot suffer it does not have."""

    address: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._clock = folder / "clock"

    @property
    def clock(self) -> str:
        """A file that shifts the clock of all processes once it is there."""
        return str(self._clock)

    def shift_clock(self, by_s: float) -> None:
        beside = self._clock.with_suffix(".new")
        beside.write_text(str(int(by_s * 1000)))
        beside.rename(self._clock)

    def configure(self, **values: object) -> None:
        """As an operator would, from another process than those of the load."""
        from forebay.limits import Limiter  # noqa: PLC0415 - the load itself shares no code with the judged

        with Limiter(self.address, environment="chaos") as limiter:
            limiter.configure("chaos", **values)  # type: ignore[arg-type]

    def go_away(self) -> None:
        """Answer nobody, and keep what is known."""
        raise NotImplementedError

    def come_back(self) -> None:
        raise NotImplementedError

    def forget(self) -> None:
        """Be there, and know nothing any more."""
        raise NotImplementedError

    def close(self) -> None:
        """End what goes on."""


class MemoryStage(Stage):
    address = "memory://"


class SqliteStage(Stage):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._file = folder / "limits.db"
        self.address = f"sqlite:///{self._file.absolute()}"
        self._blocker: apsw.Connection | None = None

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

    def close(self) -> None:
        if self._blocker is not None:
            self._blocker.close()
            self._blocker = None


class ServerStage(Stage):
    def __init__(self, folder: Path, server: Server) -> None:
        super().__init__(folder)
        self._server = server
        self.address = server.url

    def go_away(self) -> None:
        self._server.kill()

    def come_back(self) -> None:
        self._server.start()

    def hang(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, what: signal.Signals) -> None:
        os.kill(self._server.pid, what)

    def keep(self) -> None:
        raise NotImplementedError

    def roll_back(self) -> None:
        """As soon as there is anything to take back."""
        raise NotImplementedError

    def close(self) -> None:
        if self._server.is_running:
            self.go_on()


class RedisStage(ServerStage):
    _kept: bytes

    def forget(self) -> None:
        self._server.kill()
        self._server.start()

    def keep(self) -> None:
        with redis_client(self.address) as client:
            kept = client.get(_KEY)
        assert isinstance(kept, bytes)
        self._kept = kept

    def roll_back(self) -> None:
        with redis_client(self.address) as client:
            while client.get(_KEY) == self._kept:
                pass
            client.set(_KEY, self._kept)

    def flush_scripts(self) -> None:
        with redis_client(self.address) as client:
            client.script_flush()


class ReplicatedStage(Stage):
    """Several Redis servers, where a replica takes over when the primary of the limit dies."""

    @property
    def primary(self) -> Server:
        raise NotImplementedError

    def fall_behind(self) -> None:
        """Cut the replicas of the limit off: what is written from now on is lost with the primary."""
        with redis_client(self.primary.url) as client:
            client.execute_command("ACL", "SETUSER", "default", "-psync", "-sync")
            client.execute_command("CLIENT", "KILL", "TYPE", "REPLICA")

    def fail_over(self) -> None:
        """Kill the primary, and return when another server has taken over."""
        before = self.primary
        before.kill()
        self._wait_for_another(before)

    def _wait_for_another(self, before: Server) -> None:
        raise NotImplementedError


class SentinelStage(ReplicatedStage):
    def __init__(self, folder: Path, trio: SentinelTrio) -> None:
        super().__init__(folder)
        self._trio = trio
        self.address = trio.url

    @property
    def primary(self) -> Server:
        return self._trio.primary

    def _wait_for_another(self, before: Server) -> None:
        self._trio.wait_for_another(before)


class ClusterStage(ReplicatedStage):
    def __init__(self, folder: Path, cluster: ValkeyCluster) -> None:
        super().__init__(folder)
        self._cluster = cluster
        self.address = cluster.url

    @property
    def primary(self) -> Server:
        return self._cluster.owner(_KEY)

    def _wait_for_another(self, before: Server) -> None:
        self._cluster.wait_for_another(_KEY, before)


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

    def keep(self) -> None:
        for table in _TABLES:
            self._run(f"CREATE TABLE kept_{table} AS SELECT * FROM forebay_{table}")

    def roll_back(self) -> None:
        """All tables in one transaction, with the limit locked as its exchanges lock it."""
        is_newer = "SELECT 1 FROM forebay_limits AS l JOIN kept_limits AS k USING (id) WHERE l.version > k.version"
        while not self._run(is_newer):
            pass
        fields = "version, last, clock_offset, virtual, placed, head, eras, people"
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


@contextmanager
def staged(store: str, folder: Path, *, durable: bool = False) -> Iterator[Stage]:
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        stage: Stage
        match store:
            case "memory":
                stage = MemoryStage(folder)
            case "sqlite":
                stage = SqliteStage(folder)
            case "redis":
                stage = RedisStage(folder, opened.enter_context(valkey(own=True, durable=durable)))
            case "sentinel":
                stage = SentinelStage(folder, opened.enter_context(sentinel_trio()))
            case "cluster":
                stage = ClusterStage(folder, opened.enter_context(valkey_cluster()))
            case _:
                stage = PostgresStage(folder, opened.enter_context(postgres(own=True)))
        opened.callback(stage.close)
        yield stage
