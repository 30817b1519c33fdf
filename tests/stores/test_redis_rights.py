"""Limits with a user that may do no more than it must; where a right is missing, the error tells the line to add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis.exceptions import NoPermissionError

from forebay.errors import StoreForbidden
from forebay.observe import subscribe
from forebay.stores.redis import rights
from forebay.stores.redis.limits import RedisLimits
from forebay.testing.limits.case import define
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process
from tests.servers.clients import redis_client
from tests.servers.fresh import fresh_name
from tests.servers.sentinel import SentinelTrio, wait_until
from tests.servers.server import Server
from tests.servers.valkey_cluster import ValkeyCluster, ask
from tests.stores.served_limits import Heard, hand_over
from tests.stores.test_redis_limits_trouble import MAKERS

ENVIRONMENT = "prod"
TAG = "docai_semaphore"
PAGE = Path(__file__).parents[2] / "docs/how-to/limit-an-api.md"


HINTS = {"ping", "publish", "subscribe", "unsubscribe"}
OLDER = {"get"}  # only what an older program left is read by it
CROWD = 40  # more than a step looks at


@pytest.fixture(scope="module", params=MAKERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with MAKERS[request.param](own=True) as server:
        yield server


@pytest.fixture
def team(server: Server) -> str:
    """The address of a user who may do nothing yet, on a server that knows no script."""
    granted(server, "ACL SETUSER team reset resetchannels on >secret-word")
    with redis_client(server.url) as admin:
        admin.script_flush()
        admin.flushall()
    return server.url.replace("redis://", "redis://team:secret-word@").replace("/0", "/2")


def granted(server: Server, line: str) -> None:
    with redis_client(server.url) as admin:
        admin.execute_command(*line.split())


def whole_line(*, cluster: bool = False) -> str:
    return rights.limit_rights(ENVIRONMENT, [TAG], cluster=cluster).line("team")


@contextmanager
def opened(address: str) -> Iterator[RedisLimits]:
    store = RedisLimits(address, environment=ENVIRONMENT, tags={"docai": TAG})
    try:
        yield store
    finally:
        store.close()


def use(store: RedisLimits) -> None:
    """Every verb of the store, on a limit of its own: one whose script failed half-way is taken for lost at first."""
    name = fresh_name()
    define(store, 1, name=name)
    define(store, 1, name="docai")
    asker, crowd, last = (Process(store, HandClock(), sid, limit=name) for sid in ("asker", "crowd", "last"))
    held = asker.wants()
    assert held
    for _ in range(CROWD):
        crowd.joins()
    crowd.exchanges()
    last.wants()
    for _ in range(2):  # the first confirms the grant, the second says nothing else
        asker.beats()
    asker.gives_back(held)
    assert {"docai", name} <= {*store.names()}
    assert len(store.read_many(["docai", name])) == 2
    assert store.check(name) == []


def test_the_line_is_enough_and_no_more(server: Server, team: str) -> None:
    granted(server, whole_line())
    with opened(team) as store:
        use(store)
        heard = Heard()
        store.listen("waiter", heard)
        define(store, 1)
        hand_over(store, heard)
    with redis_client(team) as client:
        for forbidden in (("FLUSHALL",), ("GET", "theirs"), ("PUBLISH", "theirs", ""), ("CONFIG", "GET", "*")):
            with pytest.raises(NoPermissionError):
                client.execute_command(*forbidden)


@pytest.mark.parametrize("missing", [*sorted({*rights.commands()} - HINTS - OLDER), "keys"])
def test_without_a_right_the_error_is_the_line_that_grants_it(server: Server, team: str, missing: str) -> None:
    granted(server, whole_line())
    granted(server, "ACL SETUSER team resetkeys" if missing == "keys" else f"ACL SETUSER team -{missing}")
    with opened(team) as store:
        with pytest.raises(StoreForbidden) as caught:
            use(store)
        line = caught.value.remedy.partition("run: ")[2]
        assert line == whole_line()
        granted(server, line)
        use(store)


def test_without_the_right_to_read_what_an_older_program_left_the_error_is_the_line(server: Server, team: str) -> None:
    granted(server, whole_line())
    granted(server, "ACL SETUSER team -get")
    with opened(team) as store:
        with redis_client(server.url.replace("/0", "/2")) as admin:
            admin.set(store._key(LIMIT), "packed")
        with pytest.raises(StoreForbidden) as caught:
            store.read(LIMIT)
        assert caught.value.remedy.partition("run: ")[2] == whole_line()


@pytest.mark.parametrize("missing", ["resetchannels", "-publish", "-subscribe"])
def test_without_channels_limits_hold_and_an_event_has_the_line(server: Server, team: str, missing: str) -> None:
    granted(server, whole_line())
    granted(server, f"ACL SETUSER team {missing}")
    told: list[Mapping[str, object]] = []
    stop = subscribe(lambda name, fields: told.append(fields) if name == "limit_wakes_forbidden" else None)
    try:
        with opened(team) as store:
            store.listen("waiter", Heard())
            use(store)
            wait_until(lambda: bool(told))
    finally:
        stop()
    assert whole_line() in str(told[0]["remedy"])
    assert "secret-word" not in str(told)


def test_a_cluster_needs_two_rights_more(cluster: ValkeyCluster) -> None:
    address = cluster.url.replace("redis+cluster://", "redis+cluster://team:secret-word@")
    for node in cluster.nodes:
        ask(node, "ACL", "SETUSER", "team", "reset", "on", ">secret-word", *whole_line().split()[3:])
    with opened(address) as store:
        with pytest.raises(StoreForbidden) as caught:
            store.names()
        line = caught.value.remedy.partition("run: ")[2]
        assert line == whole_line(cluster=True)
        for node in cluster.nodes:
            ask(node, *line.split())
        use(store)


def test_without_asking_a_slot_that_moves_names_the_right(cluster: ValkeyCluster) -> None:
    address = cluster.url.replace("redis+cluster://", "redis+cluster://mover:secret-word@")
    rules = [*whole_line(cluster=True).split()[3:], "-asking"]
    for node in cluster.nodes:
        ask(node, "ACL", "SETUSER", "mover", "reset", "on", ">secret-word", *rules)
    with opened(address) as store:
        define(store, 1)
        key = store._key(LIMIT)
        source, target = cluster.begin_to_move(key)
        cluster.move_keys(key, source, target)
        try:
            with pytest.raises(StoreForbidden) as caught:
                store.read(LIMIT)
        finally:
            cluster.end_move(key, source, target)
        assert caught.value.remedy.partition("run: ")[2] == whole_line(cluster=True).replace("team", "mover")
        assert store.read(LIMIT)[0] is not None, "the connection is as good as before"


def test_a_user_of_sentinels_needs_two_rights(sentinels: SentinelTrio) -> None:
    for sentinel in sentinels.sentinels:
        ask(sentinel, "ACL", "SETUSER", "looker", "reset", "on", ">secret-word")
    address = f"{sentinels.url}?sentinel_username=looker&sentinel_password=secret-word"
    with opened(address) as store:
        with pytest.raises(StoreForbidden) as caught:
            store.names()
        line = caught.value.remedy.partition("run: ")[2]
        assert line == "ACL SETUSER looker +sentinel|get-master-addr-by-name +sentinel|master"
        for sentinel in sentinels.sentinels:
            ask(sentinel, *line.split())
        use(store)


def test_the_documentation_has_the_line() -> None:
    line = rights.limit_rights(ENVIRONMENT, []).line("forebay")
    assert line in PAGE.read_text("utf-8").replace(" \\\n    ", " ")
