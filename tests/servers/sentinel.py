"""Runs a primary and a replica of Valkey, and three Sentinels that watch them, for the tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit
from uuid import uuid4

import redis

from tests.servers.clients import redis_client
from tests.servers.ports import LOOPBACK
from tests.servers.process import ServerProcess, started
from tests.servers.recipe import Command, Place
from tests.servers.server import Server
from tests.servers.valkey import Valkey

SERVICE = "mymaster"
_SENTINEL_COUNT = 3
_QUORUM = 2
_DOWN_AFTER_MS = 1000
_FAILOVER_MS = 3000
_READY_WITHIN_S = 30.0
# How often Sentinels look at each other and at their servers. Shorter ones make failovers fail on a busy machine: a
# replica counts as good for 3 info-periods, and is demoted if 4 publish-periods do not explain why it is a primary.
_PERIODS_MS = {"info-period": 400, "ping-period": 400, "ask-period": 200, "publish-period": 500}
_ABORTED_AFTER_S = 4.0


@dataclass(frozen=True)
class SentinelRecipe(Valkey):
    """A Sentinel keeps what it knows in its configuration file."""

    name: ClassVar[str] = "sentinel"
    watched: tuple[int, int] = (0, 0)

    def command(self, place: Place) -> Command:
        primary, replica = self.watched
        file = place.folder / "sentinel.conf"
        lines = [
            f"port {place.port}",
            f"bind {LOOPBACK}",
            f"dir {place.folder}",
            f"sentinel monitor {SERVICE} {LOOPBACK} {primary} {_QUORUM}",
            f"sentinel down-after-milliseconds {SERVICE} {_DOWN_AFTER_MS}",
            f"sentinel failover-timeout {SERVICE} {_FAILOVER_MS}",
            f"sentinel myid {uuid4().hex}{uuid4().hex[:8]}",
            f"sentinel known-replica {SERVICE} {LOOPBACK} {replica}",
        ]
        if not file.exists():
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return Command([self.program(), str(file), "--sentinel"])


class SentinelTrio:
    """Two servers, one of which is the primary, and the Sentinels that decide which."""

    def __init__(self, servers: list[Server], sentinels: list[Server]) -> None:
        self.servers = servers
        self.sentinels = sentinels

    @property
    def hosts(self) -> list[tuple[str, int]]:
        return [(LOOPBACK, port_of(each)) for each in self.sentinels]

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(f'{host}:{port}' for host, port in self.hosts)}/{SERVICE}/0"

    @property
    def primary(self) -> Server:
        """The server that the first running Sentinel names."""
        sentinel = next(each for each in self.sentinels if each.is_running)
        with redis_client(sentinel.url) as client:
            _, port = client.sentinel_get_master_addr_by_name(SERVICE)
        return next(each for each in self.servers if port_of(each) == int(port))

    def other(self, server: Server) -> Server:
        return next(each for each in self.servers if each is not server)

    def fail_over(self, *, coordinated: bool = True) -> Server:
        """Have the Sentinels make the replica the primary; return it. Coordinated, nothing is lost."""
        before = self.primary
        after = self.other(before)
        deadline = time.monotonic() + _READY_WITHIN_S
        while True:
            with redis_client(self.sentinels[0].url) as client, suppress(redis.ResponseError):  # one is under way
                client.execute_command("SENTINEL", "FAILOVER", SERVICE, *["COORDINATED"] * coordinated)
            try:
                wait_until(lambda: self._is_primary(after), _ABORTED_AFTER_S)
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise
            else:
                return after

    def wait_for_another(self, before: Server) -> Server:
        """Return the new primary, once all running Sentinels name it and it takes writes."""
        after = self.other(before)
        wait_until(lambda: self._is_primary(after))
        return after

    def _is_primary(self, server: Server) -> bool:
        for sentinel in self.sentinels:
            if sentinel.is_running:
                with redis_client(sentinel.url) as client:
                    _, port = client.sentinel_get_master_addr_by_name(SERVICE)
                    if int(port) != port_of(server):
                        return False
        with redis_client(server.url) as client:
            return bool(client.role()[0] == b"master")

    def wait_until_whole(self) -> None:
        """Return when the replica follows the primary, and every Sentinel knows the others and the replica."""
        wait_until(self._is_whole)

    def _is_whole(self) -> bool:
        with redis_client(self.primary.url) as client:
            state = client.info("replication")
            if state["connected_slaves"] != 1 or state["slave0"]["state"] != "online":
                return False
        for sentinel in self.sentinels:
            with redis_client(sentinel.url) as client:
                state = client.sentinel_master(SERVICE)
                replicas = client.sentinel_slaves(SERVICE)
            if state["num-other-sentinels"] != _SENTINEL_COUNT - 1 or state["flags"] != "master":
                return False
            if [each["flags"] for each in replicas] != ["slave"]:
                return False
        return True


def port_of(server: Server) -> int:
    return urlsplit(server.url).port or 0


def wait_until(done: object, within_s: float = _READY_WITHIN_S) -> None:
    """Return when a function returns true; servers that do not answer yet are asked again."""
    assert callable(done)
    deadline = time.monotonic() + within_s
    while True:
        try:
            if done():
                return
        except (redis.RedisError, LookupError):
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within_s:g} s")
        time.sleep(0.02)


def start_all(stack: ExitStack, recipes: list[Valkey]) -> list[Server]:
    """Start servers at the same time."""
    with ThreadPoolExecutor(len(recipes)) as threads:
        processes: list[ServerProcess] = list(threads.map(started, recipes))
    for process in processes:
        stack.enter_context(process)
    return [Server(recipe.url(process.place), process) for recipe, process in zip(recipes, processes, strict=True)]


@contextmanager
def sentinel_trio(*options: str) -> Iterator[SentinelTrio]:
    """`options`: of both servers."""
    base = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", *options)
    with ExitStack() as stack:
        (primary,) = start_all(stack, [Valkey(options=base)])
        replicating = ("--replicaof", f"{LOOPBACK} {port_of(primary)}")
        (replica,) = start_all(stack, [Valkey(options=(*base, *replicating))])
        watched = (port_of(primary), port_of(replica))
        sentinels = start_all(stack, [SentinelRecipe(watched=watched) for _ in range(_SENTINEL_COUNT)])
        for sentinel in sentinels:
            with redis_client(sentinel.url) as client:
                for period, ms in _PERIODS_MS.items():
                    client.execute_command("SENTINEL", "DEBUG", period, ms)
        trio = SentinelTrio([primary, replica], sentinels)
        trio.wait_until_whole()
        yield trio
