"""Runs a cluster of Valkey for the tests: three primaries, each with a replica."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import redis
from redis.crc import key_slot

from tests.servers.clients import redis_client
from tests.servers.ports import LOOPBACK
from tests.servers.recipe import Place
from tests.servers.sentinel import port_of, start_all, wait_until
from tests.servers.server import Server
from tests.servers.valkey import Valkey

_SLOT_COUNT = 16384
_PRIMARY_COUNT = 3
_NODE_TIMEOUT_MS = 1500
_BUS = 10_000  # the port by which nodes speak to each other is that much higher


@dataclass(frozen=True)
class ClusterNode(Valkey):
    name: ClassVar[str] = "cluster-node"
    companion_offset: ClassVar[int] = _BUS

    def url(self, place: Place) -> str:
        return f"redis://{LOOPBACK}:{place.port}"


class ValkeyCluster:
    """Nodes; which of them are primaries changes by failovers."""

    def __init__(self, nodes: list[Server]) -> None:
        self.nodes = nodes

    @property
    def hosts(self) -> list[tuple[str, int]]:
        return [(LOOPBACK, port_of(each)) for each in self.nodes]

    @property
    def url(self) -> str:
        """The address of the first three nodes: clients find the others."""
        return f"redis+cluster://{','.join(f'{host}:{port}' for host, port in self.hosts[:_PRIMARY_COUNT])}"

    def owner(self, key: str) -> Server:
        """The primary that has the key, as the running nodes see it."""
        slot = key_slot(key.encode())
        for start, end, primary, *_ in self._ask("CLUSTER", "SLOTS"):
            if start <= slot <= end:
                return self.node(int(primary[1]))
        raise LookupError(key)

    def node(self, port: int) -> Server:
        return next(each for each in self.nodes if port_of(each) == port)

    def replica_of(self, primary: Server) -> Server:
        for _, _, (_, port, *_), *replicas in self._ask("CLUSTER", "SLOTS"):
            if port == port_of(primary) and replicas:
                return self.node(int(replicas[0][1]))
        raise LookupError(primary.url)

    def _ask(self, *command: str) -> Any:  # noqa: ANN401 - what a node says
        return ask(next(each for each in self.nodes if each.is_running), *command)

    def fail_over(self, primary: Server) -> Server:
        """Make the replica of a primary the primary in its place, without any trouble; return it."""
        wait_until(lambda: bool(self.replica_of(primary)))
        replica = self.replica_of(primary)
        ask(replica, "CLUSTER", "FAILOVER")
        wait_until(lambda: ask(replica, "ROLE")[0] == b"master")
        return replica

    def wait_for_another(self, key: str, before: Server) -> Server:
        """Return the new primary of a key, once all running nodes agree and it serves."""
        wait_until(lambda: self._serves(key, before))
        return self.owner(key)

    def _serves(self, key: str, before: Server) -> bool:
        owner = self.owner(key)
        return owner is not before and ask(owner, "EXISTS", key) in {0, 1} and self.is_sound()

    def is_sound(self) -> bool:
        """Whether all running nodes find the cluster in order."""
        return all(b"cluster_state:ok" in ask(each, "CLUSTER", "INFO") for each in self.nodes if each.is_running)

    def wait_until_whole(self) -> None:
        wait_until(self._is_whole)

    def _is_whole(self) -> bool:
        count = len(self.nodes) - _PRIMARY_COUNT
        for each in self.nodes:
            known = ask(each, "CLUSTER", "NODES")
            others_fine = known.count(b" connected") == len(self.nodes) and b"fail" not in known
            if not others_fine or known.count(b"slave ") != count:
                return False
        roles = [ask(each, "ROLE") for each in self.nodes]
        return sum(role[0] == b"slave" and role[3] == b"connected" for role in roles) == count and self.is_sound()

    def begin_to_move(self, key: str) -> tuple[Server, Server]:
        """Have the slot of a key begin to move from its primary to another one; return both."""
        slot, source = key_slot(key.encode()), self.owner(key)
        target = next(each for each in self.nodes if each is not source and ask(each, "ROLE")[0] == b"master")
        ids = [ask(each, "CLUSTER", "MYID") for each in (source, target)]
        ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
        ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
        return source, target

    def move_keys(self, key: str, source: Server, target: Server) -> None:
        found = ask(source, "CLUSTER", "GETKEYSINSLOT", key_slot(key.encode()), 1000)
        if found:
            ask(source, "MIGRATE", LOOPBACK, port_of(target), "", 0, 5000, "REPLACE", "KEYS", *found)

    def end_move(self, key: str, source: Server, target: Server) -> None:
        slot, target_id = key_slot(key.encode()), ask(target, "CLUSTER", "MYID")
        for each in (target, source):
            ask(each, "CLUSTER", "SETSLOT", slot, "NODE", target_id)


def ask(server: Server, *command: str | bytes | int) -> Any:  # noqa: ANN401 - what a node says
    """Send a command to one node, as it is, and return its reply as it is."""
    with redis_client(server.url) as client:
        connection = client.connection_pool.get_connection()
        try:
            connection.send_command(*command)
            return connection.read_response()
        finally:
            client.connection_pool.release(connection)


@contextmanager
def valkey_cluster(*options: str, replicas: bool = True) -> Iterator[ValkeyCluster]:
    """`options`: of all nodes."""
    timeout = ("--cluster-node-timeout", str(_NODE_TIMEOUT_MS), "--repl-diskless-sync-delay", "0")
    base = ("--cluster-enabled", "yes", "--cluster-replica-validity-factor", "0", *timeout, *options)
    with ExitStack() as stack:
        count = _PRIMARY_COUNT * (2 if replicas else 1)
        nodes = start_all(stack, [ClusterNode(options=base) for _ in range(count)])
        primaries, followers = nodes[:_PRIMARY_COUNT], nodes[_PRIMARY_COUNT:]
        for number, node in enumerate(primaries):
            first, last = (_SLOT_COUNT * at // _PRIMARY_COUNT for at in (number, number + 1))
            ask(node, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            ask(node, "CLUSTER", "ADDSLOTSRANGE", first, last - 1)
        for node in nodes[1:]:
            ask(nodes[0], "CLUSTER", "MEET", LOOPBACK, port_of(node), port_of(node) + _BUS)
        for primary, follower in zip(primaries, followers, strict=False):
            wait_until(lambda primary=primary, follower=follower: _follows(follower, primary))
        cluster = ValkeyCluster(nodes)
        if replicas:
            cluster.wait_until_whole()
        else:
            wait_until(cluster.is_sound)
        yield cluster


def _follows(follower: Server, primary: Server) -> bool:
    """Make it follow; the primary must be known to it first."""
    try:
        ask(follower, "CLUSTER", "REPLICATE", ask(primary, "CLUSTER", "MYID"))
    except redis.ResponseError:
        return False
    return True
