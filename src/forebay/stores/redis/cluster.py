"""Knows which node of a cluster has which slot, and learns that again when a node refuses or does not answer."""

from __future__ import annotations

import random
import threading
from typing import Any

from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, ResponseError

from forebay.clock import steady
from forebay.errors import StoreClosed, StoreError, StoreUnreachable
from forebay.stores.redis.connection import Server, send
from forebay.stores.redis.endpoint import CONNECT_TIMEOUT_S, TIMEOUT_S, Clustered
from forebay.stores.redis.rights import Rights

_SLOT_COUNT = 16384
_MOVES_PER_LOOK_S = 0.5
"""While slots move one by one, the whole map is not read for each of them."""

_MAP_TIMEOUT_S = 1.0
"""How long a node may take to connect, and to send the map, unless the address says otherwise: others have it, too."""


class ClusterServers:
    """The primaries of a cluster, by slot."""

    def __init__(self, deployment: Clustered, rights: Rights) -> None:
        self.place = deployment.place
        self._template = deployment.nodes[0]
        self._remap = deployment.remap
        self._rights = rights
        options = self._template.options
        defaults = {"socket_connect_timeout": CONNECT_TIMEOUT_S, "socket_timeout": TIMEOUT_S}
        self._timeouts = {name: _MAP_TIMEOUT_S for name, value in defaults.items() if options.get(name) == value}
        self._lock = threading.Lock()  # for changes of the map; nobody waits for a node under it
        self._looking = threading.Lock()
        self._closed = False
        self._given = [Server(each, rights) for each in deployment.nodes]
        self._by_address = {each.address: server for each, server in zip(deployment.nodes, self._given, strict=True)}
        self._owners: list[Server | None] = [None] * _SLOT_COUNT
        self._primaries: frozenset[Server] = frozenset()
        self._looked_at = float("-inf")
        self._doubted: dict[Server, float] = {}  # by when they failed last
        self._is_stale = True

    def of(self, key: str | None) -> Server:
        if not self._primaries:
            with self._looking:
                if not self._primaries:
                    self._look()
        elif self._is_stale and self._looking.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._looking.release()
        if key is None:
            return random.choice(tuple(self._primaries))  # noqa: S311 - any will do
        owner = self._owners[key_slot(key.encode())]
        if owner is None:
            self._is_stale = True
            raise StoreUnreachable(
                f"{self.place}: no node has the slot of {key!r}.", remedy="A part of the cluster is away: limits wait."
            )
        return owner

    def known(self, key: str) -> Server | None:
        return self._owners[key_slot(key.encode())]

    def all(self) -> list[Server]:
        with self._looking:
            self._look()
        return [*self._primaries]

    def is_current(self, server: Server) -> bool:
        return server in self._primaries

    def doubt(self, server: Server) -> None:
        self._doubted[server] = steady()
        self._is_stale = True

    def instead_of(self, server: Server, key: str | None) -> Server | None:
        self.doubt(server)
        other = self.of(key)
        return None if other is server else other

    def redirected(self, server: Server, error: AskError) -> Server:
        host, port = error.host or server.host, int(error.port)
        if self._remap is not None:
            host, port = self._remap((host, port))
        with self._lock:
            target = self._server_at(host, port)
            if isinstance(error, MovedError):
                self._owners[int(error.slot_id)] = target
                self._primaries |= {target}
                if steady() - self._looked_at > _MOVES_PER_LOOK_S:
                    self._is_stale = True
        return target

    def demoted(self, server: Server, error: ResponseError) -> Server:
        self.doubt(server)
        raise StoreUnreachable(
            f"{server.place} has become a replica.", remedy="Wait until the failover is over."
        ) from error

    def _server_at(self, host: str, port: int) -> Server:
        if (host, port) not in self._by_address:
            self._by_address[host, port] = Server(self._template.at(host, port), self._rights)
        return self._by_address[host, port]

    def _look(self) -> None:
        """Read the map from a node that answers; one thread does at a time. The node that failed last is asked last."""
        if self._closed:
            raise StoreClosed("The limit store was closed.", remedy="Open it again.")
        self._is_stale = False  # whoever doubts a node from here on has the map read again
        try:
            self._read_map()
        except BaseException:
            self._is_stale = True
            raise

    def _read_map(self) -> None:
        nodes = [*{*self._primaries, *self._given}]
        random.shuffle(nodes)
        trouble: StoreError | None = None
        for node in sorted(nodes, key=lambda each: self._doubted.get(each, 0.0)):
            try:
                slots = self._read_slots(node)
            except StoreError as error:
                self._doubted[node] = steady()
                trouble = trouble if trouble is not None and not isinstance(trouble, StoreUnreachable) else error
                continue
            self._doubted.pop(node, None)
            if slots:
                with self._lock:
                    self._use(slots, node)
                return
            trouble = trouble or StoreUnreachable(f"{node.place} has no slots.", remedy="Create the cluster.")
        if isinstance(trouble, StoreUnreachable):
            raise StoreUnreachable(
                f"{self.place}: no node answers ({trouble.what.removesuffix('.')}).",
                remedy="Check that they run, and their addresses.",
            ) from trouble
        raise trouble or StoreUnreachable(f"{self.place} names no node.", remedy="Give the addresses of some nodes.")

    def _read_slots(self, node: Server) -> list[Any]:
        link = node.dial(self._timeouts)
        with node.told(sent=False):
            try:
                send(link, "CLUSTER", "SLOTS")
                found: list[Any] = link.read_response()
            except ResponseError as error:
                if "cluster support disabled" in str(error):
                    raise StoreError(
                        f"{node.place} is not a cluster.", remedy="Use redis:// for one server."
                    ) from error
                raise
            finally:
                link.disconnect()
        return found

    def _use(self, slots: list[Any], node: Server) -> None:
        owners: list[Server | None] = [None] * _SLOT_COUNT
        for start, end, primary, *_ in slots:
            host = primary[0].decode() if primary[0] not in {None, b"", b"?"} else node.host
            port = int(primary[1])
            if self._remap is not None:
                host, port = self._remap((host, port))
            owners[int(start) : int(end) + 1] = [self._server_at(host, port)] * (int(end) - int(start) + 1)
        self._owners = owners
        self._primaries = frozenset(each for each in owners if each is not None)
        known = {*self._primaries, *self._given}
        self._by_address = {address: server for address, server in self._by_address.items() if server in known}
        self._doubted = {server: at for server, at in self._doubted.copy().items() if server in known}
        self._looked_at = steady()

    def close(self) -> None:
        """Read the map no more; connections that read it are closed at once."""
        self._closed = True
