"""Limits on a primary that Sentinels know: it is found, followed over a failover, and never taken for another."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from forebay.errors import MaybeApplied, StoreBusy, StoreClosed, StoreError, StoreUnreachable
from forebay.limits import Limiter
from forebay.stores.redis import sentinel
from forebay.stores.redis.address import read_address
from forebay.stores.redis.endpoint import Watched
from forebay.stores.redis.limits import RedisLimits
from forebay.stores.redis.rights import Rights
from forebay.stores.redis.sentinel import SentinelServers
from forebay.testing.limits.case import define, known
from forebay.testing.limits.process import LIMIT
from tests.servers.clients import redis_client
from tests.servers.fresh import fresh_name
from tests.servers.ports import LOOPBACK
from tests.servers.sentinel import SERVICE, SentinelTrio, port_of, sentinel_trio, wait_until
from tests.servers.server import Server
from tests.servers.silent import Silent
from tests.stores.served_limits import Heard, a_child_of_a_fork_is_apart, hand_over, process

AWAY = (StoreUnreachable, MaybeApplied, StoreBusy)
TELL = """store._links.call("PUBLISH", "forebay:default:wake:parent", '{"limit": "a", "now": 1, "grants": {}}')"""


@pytest.fixture
def trio(sentinels: SentinelTrio) -> SentinelTrio:
    """Shared: a test may move the primary, and must leave all servers running."""
    sentinels.wait_until_whole()
    return sentinels


@pytest.fixture
def own_trio() -> Iterator[SentinelTrio]:
    with sentinel_trio() as trio:
        yield trio


@pytest.fixture
def store(trio: SentinelTrio) -> Iterator[RedisLimits]:
    store = RedisLimits(trio.url, environment=fresh_name())
    yield store
    store.close()


def repeated(call: Callable[[], object], within_s: float = 30.0) -> object:
    """Call again while the store is away, as the limiter does."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            return call()
        except AWAY:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def subscribers(trio: SentinelTrio, channel: str) -> int:
    with redis_client(trio.primary.url) as client:
        return int(client.pubsub_numsub(channel)[0][1])


def test_the_primary_is_found(trio: SentinelTrio, store: RedisLimits) -> None:
    define(store, 1)
    assert store.names() == [LIMIT]
    with redis_client(trio.primary.url) as client:
        assert client.exists(store._key(LIMIT))
    with Limiter(trio.url, environment=store._environment) as limiter, limiter.slot(LIMIT):
        assert limiter.usage(LIMIT).in_flight == 1


def test_a_sentinel_that_is_away_is_passed_over(trio: SentinelTrio) -> None:
    address = trio.url.replace("redis+sentinel://", f"redis+sentinel://{LOOPBACK}:1,")
    store = RedisLimits(address, environment=fresh_name())
    assert store.names() == []
    store.close()


def test_a_failover_heals_by_itself_and_the_listener_comes_along(trio: SentinelTrio, store: RedisLimits) -> None:
    define(store, 1)
    heard = Heard()
    store.listen("waiter", heard)
    before = trio.primary
    after = trio.fail_over()
    repeated(lambda: known(store.read(LIMIT)[0]))
    assert store._servers.of(None).place == f"redis://{LOOPBACK}:{port_of(after)}/0"
    wait_until(lambda: subscribers(trio, f"{store._channel}waiter") == 1)
    repeated(lambda: define(store, 1))
    repeated(lambda: hand_over(store, heard))
    assert heard.grants
    assert after is not before


def test_a_primary_that_has_become_a_replica_is_not_written_to(trio: SentinelTrio, store: RedisLimits) -> None:
    """Connections that survived the failover answer READONLY, which nobody but us has to know."""
    define(store, 1)
    asker = process(store, "asker")
    before = trio.primary
    trio.fail_over()
    wait_until(lambda: _is_replica(before.url))
    answer = repeated(asker.exchanges)
    assert answer is not None


def _is_replica(url: str) -> bool:
    with redis_client(url) as client:
        return bool(client.role()[0] == b"slave")


def test_a_service_that_no_sentinel_knows_is_named(trio: SentinelTrio) -> None:
    store = RedisLimits(trio.url.replace("mymaster", "theirs"))
    with pytest.raises(StoreError, match="know no service 'theirs'") as caught:
        store.names()
    assert "SENTINEL MASTERS" in caught.value.remedy
    store.close()


def test_no_sentinel_at_all_is_unreachable() -> None:
    store = RedisLimits(f"redis+sentinel://{LOOPBACK}:1,{LOOPBACK}:2/mymaster")
    with pytest.raises(StoreUnreachable, match="no Sentinel answers"):
        store.names()
    assert store._exchange.send(store._links, "key") is False, "nothing is asked where nobody may wait"
    store.close()


def test_nobody_waits_for_a_sentinel_that_failed(trio: SentinelTrio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentinel, "_KNOWN_FOR_S", 0.0)
    monkeypatch.setattr(sentinel, "_PASSED_OVER_FOR_S", 0.0)
    monkeypatch.setattr(sentinel, "_PASSED_OVER_IN_DOUBT_FOR_S", 0.0)
    with Silent() as silent:
        port = silent.port
    address = trio.url.replace("redis+sentinel://", f"redis+sentinel://{LOOPBACK}:{port},")
    store = RedisLimits(f"{address}?socket_timeout=25")
    store.names()
    with Silent(port) as silent:
        for doubted in (False, True):
            if doubted:
                store._servers.doubt(store._servers.of(None))
            count = silent.count
            call = threading.Thread(target=store.names, daemon=True)
            call.start()
            call.join(10)
            assert not call.is_alive()
            wait_until(lambda count=count: silent.count > count)
    store.close()


def test_a_sentinel_that_failed_counts_again_when_it_answers(
    trio: SentinelTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentinel, "_KNOWN_FOR_S", 0.0)
    monkeypatch.setattr(sentinel, "_PASSED_OVER_FOR_S", 0.0)
    deployment = read_address(trio.url)
    assert isinstance(deployment, Watched)
    servers = SentinelServers(deployment, Rights(()))
    servers._sentinels[0].failed_at = 1.0
    servers.of(None)
    servers._sentinels[0].failed_at = 1.0
    wait_until(lambda: servers.of(None) is not None and servers._sentinels[0].failed_at == sentinel._NEVER)
    servers.close()


def test_a_primary_is_known_although_no_thread_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of a program, when the last slots are given back."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    deployment = read_address("redis+sentinel://one,two/m")
    assert isinstance(deployment, Watched)
    servers = SentinelServers(deployment, Rights(()))
    servers._sentinels[0].failed_at = 1.0
    monkeypatch.setattr(servers._sentinels[1], "ask", lambda: sentinel._Answer(1, "primary", 6379))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert servers.of(None).place == "redis://primary:6379/0"


@pytest.mark.parametrize("address", ["redis://{}", "redis+sentinel://{}/m", "redis+cluster://{}"])
def test_a_closed_store_opens_no_connection(address: str) -> None:
    with Silent() as silent:
        store = RedisLimits(address.format(f"{LOOPBACK}:{silent.port}"))
        store.close()
        with pytest.raises(StoreClosed):
            store.names()
        with pytest.raises(StoreClosed):
            store.read_many([LIMIT])
        if "+" in address:
            with pytest.raises(StoreClosed):
                store._servers.of(None)
        assert not silent.count


@pytest.mark.slow
def test_sentinels_that_were_set_up_again_are_believed(own_trio: SentinelTrio) -> None:
    """They count epochs from 0."""
    before = own_trio.fail_over()
    after = own_trio.other(before)
    wait_until(lambda: _is_replica(after.url))
    store = RedisLimits(own_trio.url)
    define(store, 1)
    before.kill()
    with redis_client(after.url) as client:
        client.replicaof("NO", "ONE")
    for each in own_trio.sentinels:
        with redis_client(each.url) as client:
            client.sentinel_remove(SERVICE)
            client.sentinel_monitor(SERVICE, LOOPBACK, port_of(after), 2)
    repeated(lambda: define(store, 2))
    assert store._servers.of(None).place == f"redis://{LOOPBACK}:{port_of(after)}/0"
    store.close()


@pytest.mark.parametrize(
    ("answers", "in_doubt", "followed"),
    [
        ([(0, "new"), (0, "new"), (0, "new")], True, True),
        ([(0, "new"), (0, "new"), (7, "old")], True, True),
        ([(0, "new"), (0, "new"), (0, "new")], False, False),
        ([(0, "new"), (7, "old"), (7, "old")], True, False),
        ([(0, "new")], True, False),
        ([(0, "new"), (0, "third")], True, False),
    ],
)
def test_an_older_primary_is_used_if_the_known_is_in_trouble_and_most_sentinels_keep_to_it(
    answers: list[tuple[int, str]],
    in_doubt: bool,  # noqa: FBT001 - of the table
    followed: bool,  # noqa: FBT001 - same
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deployment = read_address("redis+sentinel://one,two,three/m")
    assert isinstance(deployment, Watched)
    servers = SentinelServers(deployment, Rights(()))
    now = [100.0]
    monkeypatch.setattr(sentinel, "steady", lambda: now[0])
    known = servers._use([sentinel._Answer(7, "old", 1)], in_doubt=False)
    given = [sentinel._Answer(epoch, host, 1) for epoch, host in answers]
    for now[0] in (100.0, 104.0):
        assert servers._use(given, in_doubt=in_doubt) is known, "they may have yet to hear of a failover"
    now[0] = 106.0
    assert (servers._use(given, in_doubt=in_doubt).host == "new") is followed


@pytest.mark.slow
def test_a_child_of_a_fork_has_connections_of_its_own(trio: SentinelTrio) -> None:
    a_child_of_a_fork_is_apart(RedisLimits, TELL, trio.url)


def test_a_failover_that_loses_writes_is_a_store_that_forgot(trio: SentinelTrio, store: RedisLimits) -> None:
    """What the old primary granted counts until it cannot matter any more, for a newcomer, too."""
    define(store, 1)
    asker, newcomer = process(store, "asker"), process(store, "newcomer")
    primary, replica = trio.primary, trio.other(trio.primary)
    wait_until(lambda: _has(replica, store._key(LIMIT)))
    with redis_client(primary.url) as client:
        client.execute_command("ACL", "SETUSER", "default", "-psync", "-sync")
        client.execute_command("CLIENT", "KILL", "TYPE", "REPLICA")
    try:
        assert asker.wants(), "the replica never hears of this one"
        trio.fail_over(coordinated=False)
        repeated(asker.exchanges)
        assert repeated(lambda: newcomer.wants() or [None]) == [None], "1 of 1 is held"
        assert (
            repeated(lambda: known(store.read(LIMIT)[0])["held_back_until"])
            or known(store.read(LIMIT)[0])["generation"] > 1
        )
    finally:
        with redis_client(primary.url) as client:
            client.execute_command("ACL", "SETUSER", "default", "+psync", "+sync")


def _has(server: Server, key: str) -> bool:
    with redis_client(server.url) as client:
        return bool(client.exists(key))


@pytest.mark.slow
def test_a_primary_that_dies_is_replaced_and_calls_say_so_until_then(own_trio: SentinelTrio) -> None:
    store = RedisLimits(own_trio.url)
    define(store, 1)
    heard = Heard()
    store.listen("waiter", heard)
    before = own_trio.primary
    before.kill()
    with pytest.raises(AWAY):
        store.read(LIMIT)
    own_trio.wait_for_another(before)
    repeated(lambda: define(store, 1))
    wait_until(lambda: subscribers(own_trio, f"{store._channel}waiter") == 1)
    repeated(lambda: hand_over(store, heard))
    before.start()
    own_trio.wait_until_whole()
    assert store._servers.of(None).place == f"redis://{LOOPBACK}:{port_of(own_trio.primary)}/0"
    store.close()


@pytest.mark.slow
def test_a_primary_that_was_frozen_and_replaced_is_not_asked_when_it_thaws(own_trio: SentinelTrio) -> None:
    """Nothing was sent meanwhile, so the connection to the old one is as good as ever."""
    store = RedisLimits(own_trio.url)
    define(store, 1)
    before = own_trio.primary
    os.kill(before.pid, signal.SIGSTOP)
    try:
        after = own_trio.wait_for_another(before)
    finally:
        os.kill(before.pid, signal.SIGCONT)
    define(store, 2)
    assert store._servers.of(None).place == f"redis://{LOOPBACK}:{port_of(after)}/0"
    store.close()
