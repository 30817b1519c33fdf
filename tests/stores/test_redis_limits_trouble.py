"""Limits on a server that is away, hung, full, locked or restarted, and in a process that forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from forebay.errors import (
    BadInput,
    MaybeApplied,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from forebay.stores.redis.limits import RedisLimits
from forebay.testing.limits.case import define
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process
from tests.servers.clients import redis_client
from tests.servers.ports import LOOPBACK
from tests.servers.redis62 import HAS_WHEEL, redis62
from tests.servers.server import Server
from tests.servers.valkey import valkey
from tests.stores.served_limits import (
    Heard,
    a_child_of_a_fork_is_apart,
    closing_ends_its_thread,
    hand_over,
    process,
    threads_share,
    wakes_come_at_once,
)

SECRET = "hunter2-not-to-be-shown"
MAKERS: dict[str, Callable[..., Any]] = {"valkey": valkey, **({"redis62": redis62} if HAS_WHEEL else {})}


@pytest.fixture(params=MAKERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with MAKERS[request.param](own=True) as server:
        yield server


@contextmanager
def opened(url: str) -> Iterator[RedisLimits]:
    store = RedisLimits(url)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def store(server: Server) -> Iterator[RedisLimits]:
    with opened(server.url) as store:
        yield store


def test_a_wake_comes_at_once_and_brings_the_grants(store: RedisLimits) -> None:
    wakes_come_at_once(store)


def test_nobody_listening_there_is_refused_with_what_to_do() -> None:
    with MAKERS["valkey"](own=True) as server:
        url = server.url
    with opened(url) as store:
        begun = time.monotonic()
        with pytest.raises(StoreUnreachable, match="Check that it runs"):
            store.read(LIMIT)
        assert time.monotonic() - begun < 20


@pytest.mark.parametrize("address", ["redis://{}", "redis+sentinel://{}/m", "redis+cluster://{}"])
def test_what_a_server_says_ends_with_one_full_stop(address: str) -> None:
    with opened(address.format(f"{LOOPBACK}:1")) as store, pytest.raises(StoreUnreachable) as caught:
        store.names()
    assert ".." not in str(caught.value)
    assert ".)" not in str(caught.value)
    assert caught.value.what.endswith(".")


def test_the_handler_of_a_signal_may_release_a_slot_at_any_time(store: RedisLimits) -> None:
    """It runs in the thread that it interrupts, which may be about to take or to give back a connection."""
    define(store, 1)
    asker = process(store, "asker")
    held = asker.wants()

    def interrupted() -> None:
        with store._links._lock:
            asker.gives_back(held)

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.slow
def test_a_hung_server_is_given_up_and_the_call_may_have_been_done(server: Server, store: RedisLimits) -> None:
    define(store, 1)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        with pytest.raises(MaybeApplied):
            store.read(LIMIT)
        assert 1.5 < time.monotonic() - begun < 20
        begun = time.monotonic()
        with pytest.raises(StoreUnreachable), opened(server.url.replace("redis://", f"redis://:{SECRET}@")) as other:
            # The system's backlog accepts, nobody says hello.
            other.read(LIMIT)
        assert time.monotonic() - begun < 20
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert store.read(LIMIT)[0] is not None


@pytest.mark.slow
def test_a_server_that_answers_late_is_asked_no_more_before_it_has(server: Server, store: RedisLimits) -> None:
    """Neither by a new connection, nor by the same request once more."""
    define(store, 1)
    asker = process(store, "asker")
    with redis_client(server.url) as client:
        before = client.info()
        os.kill(server.pid, signal.SIGSTOP)
        threading.Timer(3, os.kill, (server.pid, signal.SIGCONT)).start()
        with pytest.raises(MaybeApplied):
            store.exchange(LIMIT, asker.ask())
        assert not store.send_back(LIMIT, asker.returns()), "it would wait behind the other"
        assert len(asker.wants()) == 1
        after = client.info()
    assert after["total_connections_received"] == before["total_connections_received"]


@pytest.mark.slow
def test_a_connection_on_which_nothing_comes_twice_is_given_up(server: Server, store: RedisLimits) -> None:
    define(store, 1)
    with redis_client(server.url) as client:
        known = {each["id"] for each in client.client_list()}
        os.kill(server.pid, signal.SIGSTOP)
        try:
            for _ in range(2):
                with pytest.raises(MaybeApplied):
                    store.read(LIMIT)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert store.read(LIMIT)[0] is not None
        assert {each["id"] for each in client.client_list()} - known


def test_heartbeats_have_a_connection_of_their_own(server: Server, store: RedisLimits) -> None:
    process = Process(store, HandClock(), "a")
    process.exchanges()
    process.beats()
    process.exchanges()
    process.beats()
    with redis_client(server.url) as client:
        assert len(client.client_list()) == 1 + 2


@pytest.mark.parametrize("user", ["", "nobody"])
def test_a_wrong_password_is_said_and_never_shown(server: Server, user: str) -> None:
    with redis_client(server.url) as client:
        client.config_set("requirepass", "right")
    with opened(server.url.replace("redis://", f"redis://{user}:{SECRET}@")) as store:
        with pytest.raises(StoreError, match="refused the user or the password") as caught:
            store.read(LIMIT)
        seen: BaseException | None = caught.value
        while seen is not None:
            assert SECRET not in f"{seen} {seen!r}"
            seen = seen.__cause__ or seen.__context__
    with opened(server.url) as store, pytest.raises(StoreError, match="refused the user or the password"):
        store.read(LIMIT)
    with opened(server.url.replace("redis://", "redis://:right@")) as store:
        assert store.read(LIMIT)[0] is None


@pytest.mark.parametrize(
    "address",
    [
        f"http://u:{SECRET}@host",
        f"redis://u:{SECRET}/@host:x",
        f"redis://:{SECRET}@[host",
        f"redis://host?socket_timeout={SECRET}",
        f"redis://host?nonsense={SECRET}",
        "",
    ],
)
def test_an_address_that_is_none_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(BadInput) as caught:
        RedisLimits(address)
    assert SECRET not in str(caught.value)


def test_a_full_server_is_said_to_be_full(server: Server, store: RedisLimits) -> None:
    define(store, 1)
    with redis_client(server.url) as client:
        client.config_set("maxmemory", "1")
        with pytest.raises(StoreFull):
            Process(store, HandClock(), "a").wants()
        client.config_set("maxmemory", "0")
    assert Process(store, HandClock(), "a").wants()


def test_a_replica_is_said_to_be_one(server: Server, store: RedisLimits) -> None:
    define(store, 1)
    with redis_client(server.url) as client:
        client.replicaof(LOOPBACK, "1")
        with pytest.raises((StoreReadOnly, StoreBusy)):
            Process(store, HandClock(), "a").wants()
        client.replicaof("NO", "ONE")


def test_a_restarted_server_is_used_again_and_the_listener_comes_back(server: Server, store: RedisLimits) -> None:
    heard = Heard()
    store.listen("waiter", heard)
    define(store, 1)
    server.stop()
    with pytest.raises((StoreUnreachable, MaybeApplied)):
        store.read(LIMIT)
    server.start()
    assert store.read(LIMIT)[0] is None
    deadline = time.monotonic() + 10
    with redis_client(server.url) as client:
        while not client.pubsub_numsub("forebay:default:wake:waiter")[0][1] and time.monotonic() < deadline:
            time.sleep(0.02)
    define(store, 1)
    hand_over(store, heard)
    assert heard.grants


@pytest.mark.slow
def test_a_listener_notices_a_peer_that_says_nothing_any_more(server: Server, store: RedisLimits) -> None:
    store.listen("waiter", Heard())
    with redis_client(server.url) as client:
        os.kill(server.pid, signal.SIGSTOP)
        time.sleep(5)
        os.kill(server.pid, signal.SIGCONT)
        deadline = time.monotonic() + 10
        while client.pubsub_numsub("forebay:default:wake:waiter")[0][1] != 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        listening = client.client_list(_type="pubsub")
    assert len(listening) == 1
    assert int(listening[0]["age"]) <= 4


def test_listening_to_a_server_that_is_away_does_not_raise() -> None:
    with MAKERS["valkey"](own=True) as server:
        url = server.url
    with opened(url) as store:
        begun = time.monotonic()
        store.listen("waiter", Heard())
        assert time.monotonic() - begun < 20


def test_close_ends_the_listener_and_frees_the_connections(server: Server) -> None:
    closing_ends_its_thread(RedisLimits(server.url))
    with redis_client(server.url) as client:
        deadline = time.monotonic() + 30
        while len(client.client_list()) > 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(client.client_list()) == 1


def test_threads_share_the_store(store: RedisLimits) -> None:
    threads_share(store)


TELL = """store._links.call("PUBLISH", "forebay:default:wake:parent", '{"limit": "a", "now": 1, "grants": {}}')"""


def test_a_child_of_a_fork_has_connections_of_its_own(server: Server) -> None:
    a_child_of_a_fork_is_apart(RedisLimits, TELL, server.url)


def test_without_the_package_the_line_to_run_is_told() -> None:
    code = "import sys; sys.modules['redis'] = None\nimport forebay.stores.redis.limits"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=150, check=False)
    assert "MissingExtra" in done.stderr
    assert "pip install 'forebay[redis]'" in done.stderr
