"""Says how one connection to a Redis or Valkey server is opened, and what a deployment of such servers consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from redis.connection import SSLConnection

CONNECT_TIMEOUT_S = 3.0
TIMEOUT_S = 2.0
SENTINEL_TIMEOUT_S = 1.0  # of several that are asked one after the other
PORT = 6379
SENTINEL_PORT = 26379
REMEDY = (
    "Use redis://host:6379/0, redis+sentinel://host1:26379,host2:26379/service/0, redis+cluster://host1:6379,host2:6379"
    " (each with rediss for TLS), or unix:///path/to/socket."
)
# Neither an address nor a client chooses these: replies are read as bytes, and the caller knows what to repeat.
_FIXED: dict[str, object] = {
    "protocol": 2,
    "decode_responses": False,
    "health_check_interval": 0,
    "retry": None,
    "retry_on_error": [],
    "retry_on_timeout": False,
}


class Endpoint(NamedTuple):
    """A class of connections, its options, and a text that names the server without its password."""

    kind: type
    options: dict[str, Any]
    place: str

    def __repr__(self) -> str:
        """Leave the options out: they hold the password."""
        return f"Endpoint({self.place!r})"

    @property
    def address(self) -> tuple[str, int]:
        return self.options.get("host", "localhost"), int(self.options.get("port", PORT))

    @property
    def is_tls(self) -> bool:
        return self.kind is SSLConnection

    def at(self, host: str, port: int) -> Endpoint:
        """Return the same for another server of the deployment."""
        place = tcp_place("rediss" if self.is_tls else "redis", host, port, f"/{self.options.get('db', 0)}")
        return Endpoint(self.kind, {**self.options, "host": host, "port": port}, place)


@dataclass(frozen=True, slots=True)
class Single:
    """One server."""

    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class Watched:
    """A primary that Sentinels know by the name of its service; `template` is how any server of it is reached."""

    sentinels: tuple[Endpoint, ...]
    service: str
    template: Endpoint
    place: str


@dataclass(frozen=True, slots=True)
class Clustered:
    """A cluster, some of whose nodes are known; `remap` translates addresses that the nodes name."""

    nodes: tuple[Endpoint, ...]
    place: str
    remap: Callable[[tuple[str, int]], tuple[str, int]] | None = None


Deployment: TypeAlias = Single | Watched | Clustered


def make_endpoint(kind: type, options: Mapping[str, Any], place: str) -> Endpoint:
    """Raise TypeError, ValueError or a RedisError for options that make no connection."""
    given = dict(options)
    if kind is SSLConnection and (given.get("ssl_certfile") or given.get("ssl_keyfile")):
        given.setdefault("ssl_password", "")  # else an encrypted key makes OpenSSL ask at the terminal
    every = {"socket_connect_timeout": CONNECT_TIMEOUT_S, "socket_timeout": TIMEOUT_S} | given | _FIXED
    kind(**every)
    return Endpoint(kind, every, place)


def tcp_place(scheme: str, host: str, port: int, path: str) -> str:
    return f"{scheme}://{host_text(host)}:{port}{path}"


def host_text(host: str) -> str:
    return f"[{host}]" if ":" in host else host
