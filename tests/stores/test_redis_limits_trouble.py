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
    StoreClosed,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from forebay.model.limit_record import Grant
from forebay.stores.redis.limits import RedisLimits
from forebay.testing.limits.case import define
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process
from tests.servers.clients import redis_client
from tests.servers.ports import LOOPBACK
from tests.servers.redis62 import HAS_WHEEL, redis62
from tests.servers.server import Server
from tests.servers.valkey import valkey

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


class Heard:
    """What a session was woken with, and when."""

    def __init__(self) -> None:
        self.at = 0.0
        self.grants: list[Grant] = []
        self.event = threading.Event()

    def __call__(self, limit: str, grants: list[Grant], now: int) -> None:
        self.at = time.perf_counter()
        self.grants = grants
        self.event.set()


def hand_over(store: RedisLimits, heard: Heard) -> float:
    """One session gives back what another waits for; how long that takes to hear of it."""
    clock = HandClock(store.read(LIMIT)[1])
    holder, waiter = Process(store, clock, "holder"), Process(store, clock, "waiter")
    held = holder.wants()
    assert held
    waiter.wants()
    heard.event.clear()
    begun = time.perf_counter()
    holder.gives_back(held)
    assert heard.event.wait(5)
    waiter.asks()
    waiter.gives_back(list(waiter.calls))
    return heard.at - begun


def test_a_wake_comes_at_once_and_brings_the_grants(store: RedisLimits) -> None:
    define(store, 1)
    heard = Heard()
    store.listen("waiter", heard)
    took = []
    for _ in range(5):
        store._links.call("DEL", store._key(LIMIT))
        define(store, 1)
        took.append(hand_over(store, heard))
    assert heard.grants[0]["count"] == 1
    assert sorted(took)[2] < 0.05  # typically below a millisecond


def test_nobody_listening_there_is_refused_with_what_to_do() -> None:
    with MAKERS["valkey"](own=True) as server:
        url = server.url
    with opened(url) as store:
        begun = time.monotonic()
        with pytest.raises(StoreUnreachable, match="Check that it runs"):
            store.read(LIMIT)
        assert time.monotonic() - begun < 3.5


def test_a_hung_server_is_given_up_and_the_call_may_have_been_done(server: Server, store: RedisLimits) -> None:
    define(store, 1)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        with pytest.raises(MaybeApplied):
            store.read(LIMIT)
        assert 1.5 < time.monotonic() - begun < 3.5
        begun = time.monotonic()
        with pytest.raises(StoreUnreachable), opened(server.url.replace("redis://", f"redis://:{SECRET}@")) as other:
            # The system's backlog accepts, nobody says hello.
            other.read(LIMIT)
        assert time.monotonic() - begun < 3.5
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert store.read(LIMIT)[0] is not None


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
        assert time.monotonic() - begun < 3


def test_close_ends_the_listener_and_frees_the_connections(server: Server) -> None:
    before = threading.active_count()
    with opened(server.url) as store:
        define(store, 1)
        stop = store.listen("waiter", Heard())
        assert threading.active_count() == before + 1
    stop()
    assert threading.active_count() == before
    with redis_client(server.url) as client:
        deadline = time.monotonic() + 5
        while len(client.client_list()) > 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(client.client_list()) == 1
    with pytest.raises(StoreClosed):
        store.read(LIMIT)
    with pytest.raises(StoreClosed):
        store.listen("waiter", Heard())


def test_threads_share_the_store(store: RedisLimits) -> None:
    define(store, 1000)
    errors: list[BaseException] = []

    def use(sid: str) -> None:
        try:
            process = Process(store, HandClock(), sid)
            for _ in range(30):
                process.wants()
        except BaseException as error:  # noqa: BLE001 - told to the test
            errors.append(error)

    threads = [threading.Thread(target=use, args=(f"s{at}",)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record, _ = store.read(LIMIT)
    assert errors == []
    assert record is not None
    assert sum(len(seat["calls"]) for seat in record["seats"].values()) == 180


FORKING = """
import os, sys
from forebay.stores.redis.limits import RedisLimits
store = RedisLimits(sys.argv[1])
heard = []
stop = store.listen("parent", lambda *told: heard.append(told))
store.read("a")
pid = os.fork()
if pid == 0:
    for _ in range(200):
        assert store.read("a")[0] is None
    store.listen("child", lambda *told: None)
    store.close()
    os._exit(0)
for _ in range(200):
    assert store.read("a")[0] is None
assert os.waitpid(pid, 0)[1] == 0
assert store.read("a")[0] is None
store._links.call("PUBLISH", "forebay:default:wake:parent", '{"limit": "a", "now": 1, "grants": {}}')
import time
deadline = time.monotonic() + 5
while not heard and time.monotonic() < deadline:
    time.sleep(0.01)
assert heard == [("a", [], 1)], heard
store.close()
print("sound")
"""


def test_a_child_of_a_fork_has_connections_of_its_own(server: Server) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, server.url],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("sound\n", "")


def test_without_the_package_the_line_to_run_is_told() -> None:
    code = "import sys; sys.modules['redis'] = None\nimport forebay.stores.redis.limits"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert "MissingExtra" in done.stderr
    assert "pip install 'forebay[redis]'" in done.stderr
