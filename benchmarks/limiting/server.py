"""What a Redis server says of itself: its version, and how long its scripts took."""

from __future__ import annotations

from typing import Any, NamedTuple

import redis

_SCRIPTS = ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall")


class Scripts(NamedTuple):
    calls: int
    usec: int


class ServerTime:
    """Of one server that nobody else uses."""

    def __init__(self, address: str) -> None:
        self._client: Any = redis.Redis.from_url(address)

    @property
    def version(self) -> str:
        found = self._client.info("server")
        name = found.get("server_name", "redis")
        return f"{name} {found.get(f'{name}_version') or found['redis_version']}"

    def empty(self) -> None:
        self._client.flushall()

    def restart(self) -> None:
        self._client.config_resetstat()

    def scripts(self) -> Scripts:
        """Since the restart, with what they called."""
        found = self._client.info("commandstats")
        stats = [found[name] for name in _SCRIPTS if name in found]
        return Scripts(sum(each["calls"] for each in stats), sum(each["usec"] for each in stats))

    @property
    def cpu_s(self) -> float:
        """Of the server since its start."""
        found = self._client.info("cpu")
        return float(found["used_cpu_user"]) + float(found["used_cpu_sys"])

    @property
    def connections(self) -> int:
        """Without our own."""
        return int(self._client.info("clients")["connected_clients"]) - 1

    def close(self) -> None:
        self._client.close()
