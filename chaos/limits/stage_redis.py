"""A limit on a Redis server, or on several of which another takes over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import redis

from chaos.limits.stage import MOST_CLEARED, ServerStage, Stage
from chaos.limits.steps import CommandSteps, Steps
from tests.servers.clients import redis_client
from tests.servers.sentinel import SentinelTrio
from tests.servers.server import Server
from tests.servers.valkey_cluster import ValkeyCluster

KEY = "{forebay:chaos:chaos}:limit"
MOST_COMMANDS = 300
"""How many commands one step may have: of 32 grants, 8 sessions that it clears away, and its own session."""
_PARTS: dict[str, Callable[[redis.Redis, str], int]] = {
    "sessions": redis.Redis.hlen,
    "calls": redis.Redis.hlen,
    "ends": redis.Redis.zcard,
    "line": redis.Redis.zcard,
    "unconfirmed": redis.Redis.zcard,
    "tails": redis.Redis.hlen,
}


class RedisStage(ServerStage):
    _kept: dict[bytes, bytes]
    _kept_header: dict[bytes, bytes]

    def forget(self) -> None:
        self._server.kill()
        self._server.start()

    def keep(self) -> None:
        with redis_client(self.address) as client:
            keys = sorted(client.keys(f"{KEY}*"))
            with client.pipeline(transaction=True) as step:
                step.hgetall(KEY)
                for key in keys:
                    step.dump(key)
                self._kept_header, *dumps = step.execute()
        self._kept = dict(zip(keys, dumps, strict=True))

    def roll_back(self) -> None:
        with redis_client(self.address) as client:
            while not self._has_moved_on(client.hgetall(KEY)):
                pass
            with client.pipeline(transaction=True) as step:
                for key, dumped in self._kept.items():
                    step.restore(key, 0, dumped, replace=True)
                step.execute()

    def _has_moved_on(self, header: dict[bytes, bytes]) -> bool:
        """By more than the time, which also a heartbeat moves."""
        return any(header[name] != value for name, value in self._kept_header.items() if name != b"last")

    def contents(self) -> dict[str, int]:
        """And the bytes of all parts; each part has one member that is always there."""
        with redis_client(self.address) as client:
            counts = {part: count(client, f"{KEY}:{part}") - 1 for part, count in _PARTS.items()}
            sizes = [client.memory_usage(key, samples=0) for key in client.keys(f"{KEY}*")]
        return counts | {"bytes": sum(size or 0 for size in sizes)}

    def watch_steps(self) -> Steps:
        drops = f'"HDEL" "{KEY}:sessions"'.encode()
        return CommandSteps(self.place, drops=drops, most=MOST_COMMANDS, most_cleared=MOST_CLEARED)

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
        return self._cluster.owner(KEY)

    def _wait_for_another(self, before: Server) -> None:
        self._cluster.wait_for_another(KEY, before)
