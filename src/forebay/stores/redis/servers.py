"""Says which server of a deployment has a key: its only one, the primary that Sentinels name, a node of a cluster."""

from __future__ import annotations

from typing import Protocol

from redis.exceptions import AskError, ResponseError

from forebay.stores.limit_base import RedisClient
from forebay.stores.redis.address import read_address
from forebay.stores.redis.client import read_client
from forebay.stores.redis.cluster import ClusterServers
from forebay.stores.redis.connection import Server
from forebay.stores.redis.endpoint import Clustered, Deployment, Single
from forebay.stores.redis.rights import Rights
from forebay.stores.redis.sentinel import SentinelServers


class Servers(Protocol):
    """Thread-safe; nothing is opened before first use."""

    place: str

    def of(self, key: str | None) -> Server:
        """The server that has a key, any without a key; asks the deployment where that is not known for sure."""

    def known(self, key: str) -> Server | None:
        """The same as far as it is known without asking."""

    def all(self) -> list[Server]:
        """All servers that have keys of their own; asks."""

    def is_current(self, server: Server) -> bool:
        """Whether the server belongs to the deployment, as it was known last."""

    def doubt(self, server: Server) -> None:
        """Note that a server is in trouble: the deployment is asked before the next use."""

    def instead_of(self, server: Server, key: str | None) -> Server | None:
        """Another server that has the key now, after one that cannot be reached; None if it is still the same."""

    def redirected(self, server: Server, error: AskError) -> Server:
        """The server that another one has named."""

    def demoted(self, server: Server, error: ResponseError) -> Server:
        """The server that is the primary now, after one that is not; raise if there is none yet."""

    def close(self) -> None: ...


class OneServer:
    """The deployment of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.place = server.place

    def of(self, key: str | None) -> Server:  # noqa: ARG002 - it has all keys
        return self._server

    def known(self, key: str) -> Server | None:  # noqa: ARG002 - same
        return self._server

    def all(self) -> list[Server]:
        return [self._server]

    def is_current(self, server: Server) -> bool:
        return server is self._server

    def doubt(self, server: Server) -> None:
        """There is no other."""

    def instead_of(self, server: Server, key: str | None) -> Server | None:  # noqa: ARG002 - same
        return None

    def redirected(self, server: Server, error: AskError) -> Server:
        raise server.refusal(error) from error

    def demoted(self, server: Server, error: ResponseError) -> Server:
        raise server.refusal(error) from error

    def close(self) -> None:
        """Nothing is open here."""


def read_deployment(source: str | RedisClient) -> Deployment:
    """Return what an address or a client names; nothing is opened."""
    return read_address(source) if isinstance(source, str) else read_client(source)


def open_servers(deployment: Deployment, rights: Rights) -> Servers:
    """Return who says which server has a key."""
    if isinstance(deployment, Single):
        return OneServer(Server(deployment.endpoint, rights))
    if isinstance(deployment, Clustered):
        return ClusterServers(deployment, rights)
    return SentinelServers(deployment, rights)
