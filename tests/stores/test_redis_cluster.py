"""Limits in a cluster: each on the node that has its slot, wherever that moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forebay.limits import Limiter
from forebay.stores.redis.limits import RedisLimits
from forebay.testing.limits.case import define, known
from forebay.testing.limits.process import LIMIT
from tests.servers.fresh import fresh_name
from tests.servers.ports import LOOPBACK
from tests.servers.sentinel import port_of
from tests.servers.valkey_cluster import ValkeyCluster
from tests.stores.served_limits import Heard, hand_over, process
from tests.stores.test_redis_sentinel import repeated


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


def test_a_wake_reaches_a_listener_at_any_node(nodes: ValkeyCluster, store: RedisLimits) -> None:
    define(store, 1)
    for number in range(6):
        heard = Heard()
        other = RedisLimits(nodes.url, environment=store._environment)
        other.listen(f"s{number}", heard)
        hand_over(store, heard, f"s{number}")
        assert heard.grants[0]["count"] == 1
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
    assert not known(store.read(LIMIT)[0])["seats"]["asker"]["calls"]


def test_a_slot_that_moves_is_followed_to_its_new_node(nodes: ValkeyCluster, store: RedisLimits) -> None:
    define(store, 2)
    key = store._key(LIMIT)
    asker = process(store, "asker")
    asker.wants()
    source, target = nodes.begin_to_move(key)
    assert asker.wants(), "the key is still here"
    nodes.move_keys(key, source, target)
    assert len(known(store.read(LIMIT)[0])["seats"]["asker"]["calls"]) == 2, "asked of the new node (ASK)"
    asker.gives_back([*asker.calls])
    assert store.send_back(LIMIT, asker.ask()) in {True, False}
    nodes.end_move(key, source, target)
    assert len(asker.wants()) == 1, "moved (MOVED)"
    assert nodes.owner(key) is target
