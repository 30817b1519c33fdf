"""Limits in a cluster: each on the node that has its slot, wherever that moves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from forebay.errors import StoreBusy, StoreError, StoreUnreachable
from forebay.limits import Limiter
from forebay.stores.limit_base import LimitStore
from forebay.stores.redis.address import read_address
from forebay.stores.redis.cluster import ClusterServers
from forebay.stores.redis.endpoint import Clustered
from forebay.stores.redis.limits import RedisLimits
from forebay.stores.redis.links import Links
from forebay.stores.redis.rights import Rights
from forebay.testing.limits import LimitStoreSuite
from forebay.testing.limits.case import define, known
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT
from tests.servers.fresh import fresh_name
from tests.servers.ports import LOOPBACK
from tests.servers.sentinel import port_of, wait_until
from tests.servers.server import Server
from tests.servers.silent import Silent
from tests.servers.valkey_cluster import ValkeyCluster, ask, valkey_cluster
from tests.stores.served_limits import Heard, a_child_of_a_fork_is_apart, hand_over, process
from tests.stores.test_redis_sentinel import AWAY, TELL, repeated


@pytest.fixture
def nodes(cluster: ValkeyCluster) -> ValkeyCluster:
    """Shared: a test may move slots and primaries, and must leave all nodes running."""
    cluster.wait_until_whole()
    return cluster


@pytest.fixture
def store(nodes: ValkeyCluster) -> Iterator[RedisLimits]:
    store = RedisLimits(nodes.url, environment=fresh_name())
    yield store
    store.close()


def test_limits_lie_on_all_nodes_and_are_listed(nodes: ValkeyCluster, store: RedisLimits) -> None:
    limits = [f"limit-{number}" for number in range(12)]
    for limit in limits:
        define(store, 1, name=limit)
    assert {nodes.owner(store._key(limit)).url for limit in limits} == {each.url for each in nodes.nodes[:3]}
    assert store.names() == sorted(limits)
    found = store.read_many(limits)
    assert all(record is not None for record, _ in found)
    with Limiter(nodes.url, environment=store._environment) as limiter:
        assert {each.name for each in limiter.usages()} == set(limits)


def test_one_node_is_enough_to_find_the_others(nodes: ValkeyCluster) -> None:
    environment = fresh_name()
    store = RedisLimits(f"redis+cluster://{LOOPBACK}:1,{LOOPBACK}:{port_of(nodes.nodes[4])}", environment=environment)
    define(store, 1)
    assert store.names() == [LIMIT]
    store.close()


def test_silent_nodes_do_not_hold_up_calls_to_others(nodes: ValkeyCluster) -> None:
    """All but one node hang once the map is known."""
    well = nodes.owner("key")
    hanging = {(LOOPBACK, port_of(each)) for each in nodes.nodes if each is not well}
    with Silent() as silent:
        deployment = read_address(f"redis+cluster://{LOOPBACK}:{silent.port},{LOOPBACK}:{port_of(well)}")
        assert isinstance(deployment, Clustered)
        remapped = replace(deployment, remap=lambda place: (LOOPBACK, silent.port) if place in hanging else place)
        servers = ClusterServers(remapped, Rights(()))
        links = Links(servers)
        owner = servers.of("key")
        servers._doubted.clear()
        count = silent.count
        servers.doubt(owner)
        look = threading.Thread(target=servers.of, args=("key",))
        look.start()
        wait_until(lambda: silent.count > count)
        links.call("EXISTS", "key", key="key")
        assert look.is_alive(), "the call did not wait for the thread that reads the map"
        look.join()
        count = silent.count
        for _ in range(8):
            servers.all()
        assert silent.count == count, "a node that did not answer is asked last"
        links.close()


@pytest.mark.parametrize(("options", "within_s"), [("", 1.0), ("?socket_timeout=9&socket_connect_timeout=9", None)])
def test_the_map_is_awaited_for_a_short_time_unless_the_address_says_otherwise(
    options: str, within_s: float | None
) -> None:
    deployment = read_address(f"redis+cluster://one{options}")
    assert isinstance(deployment, Clustered)
    timeouts = ClusterServers(deployment, Rights(()))._timeouts
    for name in ("socket_timeout", "socket_connect_timeout"):
        assert timeouts.get(name) == within_s


def test_a_wake_reaches_a_listener_at_any_node(nodes: ValkeyCluster, store: RedisLimits) -> None:
    define(store, 1)
    for number in range(6):
        heard = Heard()
        other = RedisLimits(nodes.url, environment=store._environment)
        other.listen(f"s{number}", heard)
        hand_over(store, heard, f"s{number}")
        assert heard.grants[0]["call_count"] == 1
        other.close()


def test_a_failover_heals_by_itself(nodes: ValkeyCluster, store: RedisLimits) -> None:
    define(store, 1)
    asker = process(store, "asker")
    held = asker.wants()
    assert held
    after = nodes.fail_over(nodes.owner(store._key(LIMIT)))
    repeated(asker.exchanges)
    assert nodes.owner(store._key(LIMIT)) is after
    repeated(lambda: asker.gives_back(held))
    assert not known(store.read(LIMIT)[0])["sessions"]["asker"]["calls"]


def test_a_slot_that_moves_is_followed_to_its_new_node(nodes: ValkeyCluster, store: RedisLimits) -> None:
    define(store, 2)
    key = store._key(LIMIT)
    asker = process(store, "asker")
    asker.wants()
    source, target = nodes.begin_to_move(key)
    assert asker.wants(), "the key is still here"
    nodes.move_keys(key, source, target)
    assert len(known(store.read(LIMIT)[0])["sessions"]["asker"]["calls"]) == 2, "asked of the new node (ASK)"
    asker.gives_back([*asker.calls])
    assert store.send_back(LIMIT, asker.ask()) in {True, False}
    nodes.end_move(key, source, target)
    assert len(asker.wants()) == 1, "moved (MOVED)"
    assert nodes.owner(key) is target


def test_a_command_that_needs_keys_on_both_nodes_is_tried_again_later(nodes: ValkeyCluster, store: RedisLimits) -> None:
    """TRYAGAIN: of the keys of one slot some have moved."""
    key, other = (f"{store._key(LIMIT)}:{name}" for name in ("one", "other"))
    for each in (key, other):
        store._links.call("SET", each, "1", key=each)
    source, target = nodes.begin_to_move(key)
    ask(source, "MIGRATE", LOOPBACK, port_of(target), other, 0, 5000)
    with pytest.raises(StoreBusy, match="TRYAGAIN"):
        store._links.call("MGET", key, other, key=key)
    nodes.move_keys(key, source, target)
    assert None not in store._links.call("MGET", key, other, key=key), "asked of the new node"
    nodes.end_move(key, source, target)


def test_a_node_of_a_cluster_by_itself_is_no_address(nodes: ValkeyCluster) -> None:
    for node in nodes.nodes[:2]:
        store = RedisLimits(node.url, environment="prod")
        try:
            define(store, 1)
        except StoreError as error:
            assert "redis+cluster://" in error.remedy  # noqa: PT017 - the limit may lie on this very node
        store.close()


def test_a_server_that_is_no_cluster_is_named(valkey_server: Server) -> None:
    store = RedisLimits(valkey_server.url.replace("redis://", "redis+cluster://"))
    with pytest.raises(StoreError, match="is not a cluster"):
        store.names()
    store.close()


@pytest.mark.slow
def test_a_child_of_a_fork_has_connections_of_its_own(nodes: ValkeyCluster) -> None:
    a_child_of_a_fork_is_apart(RedisLimits, TELL, nodes.url)


@pytest.mark.slow
def test_a_primary_that_dies_is_replaced_and_calls_say_so_until_then() -> None:
    with valkey_cluster() as own:
        store = RedisLimits(own.url)
        define(store, 1)
        heard = Heard()
        store.listen("waiter", heard)
        before = own.owner(store._key(LIMIT))
        before.kill()
        with pytest.raises(AWAY):
            store.read(LIMIT)
        own.wait_for_another(store._key(LIMIT), before)
        repeated(lambda: define(store, 1))
        wait_until(lambda: hand_over(store, heard) >= 0)
        assert store.names() == [LIMIT]
        before.start()
        own.wait_until_whole()
        assert store.read(LIMIT)[0] is not None
        store.close()


@pytest.mark.slow
def test_a_cluster_with_a_part_away_is_unreachable_and_heals() -> None:
    with valkey_cluster(replicas=False) as own:
        store = RedisLimits(own.url)
        define(store, 1)
        other = next(each for each in own.nodes if each is not own.owner(store._key(LIMIT)))
        other.kill()
        wait_until(lambda: not own.is_sound())
        with pytest.raises(StoreUnreachable, match="CLUSTERDOWN"):
            store.read(LIMIT)
        with pytest.raises(StoreUnreachable):
            store.names()
        other.start()
        wait_until(own.is_sound)
        repeated(lambda: define(store, 1))
        assert repeated(store.names) == [LIMIT]
        store.close()


@pytest.mark.slow
class TestContractInACluster(LimitStoreSuite):
    @pytest.fixture(autouse=True)
    def corner(self, nodes: ValkeyCluster) -> Iterator[None]:
        """Environments of its own, in a cluster that ends with the tests."""
        self.nodes = nodes
        self.opened: list[RedisLimits] = []
        yield
        for store in self.opened:
            store.close()

    def make_store(self, clock: HandClock) -> RedisLimits:
        return self._opened(fresh_name(), clock)

    def another(self, store: LimitStore, clock: HandClock) -> LimitStore:
        assert isinstance(store, RedisLimits)
        return self._opened(store._environment, clock)

    def _opened(self, environment: str, clock: HandClock) -> RedisLimits:
        self.opened.append(RedisLimits(self.nodes.url, environment=environment, clock=clock))
        return self.opened[-1]
