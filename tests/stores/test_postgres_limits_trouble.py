"""Limits on a PostgreSQL server that is away, killed or full of others' locks, behind a pooler, and across a fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psycopg
import pytest

from forebay.errors import MaybeApplied, StoreBusy, StoreReadOnly, StoreUnreachable
from forebay.model.limit_record import Ask
from forebay.stores.limit_address import open_limits
from forebay.stores.postgres.limits import PostgresLimits
from forebay.testing.limits.case import define, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process
from tests.servers.pooler import pooler
from tests.servers.postgres import postgres
from tests.servers.server import Server
from tests.stores.served_limits import (
    Heard,
    a_child_of_a_fork_is_apart,
    closing_ends_its_thread,
    hand_over,
    process,
    threads_share,
    wakes_come_at_once,
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres(own=True) as server:
        yield server


@contextmanager
def opened(url: str) -> Iterator[PostgresLimits]:
    store = PostgresLimits(url)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def store(server: Server) -> Iterator[PostgresLimits]:
    with opened(server.url) as store:
        yield store
    with psycopg.connect(server.url) as admin:
        admin.execute("DROP TABLE IF EXISTS forebay_limits")


def test_the_address_names_it(server: Server, store: PostgresLimits) -> None:
    for scheme in ("postgresql", "postgres"):
        found = open_limits(server.url.replace("postgresql", scheme), "default")
        assert isinstance(found, PostgresLimits)
        assert found.read(LIMIT)[0] is None
        found.close()


def test_a_wake_comes_at_once_and_brings_the_grants(store: PostgresLimits) -> None:
    wakes_come_at_once(store)


def test_heartbeats_and_wakes_have_connections_of_their_own(server: Server, store: PostgresLimits) -> None:
    define(store, 1)
    a = process(store, "a")
    store.listen("a", Heard())
    for _ in range(3):
        a.exchanges()
        a.beats()
    with psycopg.connect(server.url) as admin:
        count = admin.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'forebay'").fetchone()
    assert count == (3,)


def test_a_server_that_is_away_is_told_and_used_again_when_it_is_back(server: Server, store: PostgresLimits) -> None:
    heard = Heard()
    store.listen("waiter", heard)
    define(store, 1)
    server.stop()
    with pytest.raises((StoreUnreachable, MaybeApplied)):
        store.read(LIMIT)
    with pytest.raises(StoreUnreachable):
        store.read(LIMIT)
    server.start()
    assert stored(store)
    deadline = time.monotonic() + 10
    with psycopg.connect(server.url, autocommit=True) as admin:
        query = "SELECT FROM pg_stat_activity WHERE query LIKE 'LISTEN%%' AND application_name = 'forebay'"
        while not admin.execute(query).fetchall() and time.monotonic() < deadline:
            time.sleep(0.02)
    hand_over(store, heard)
    assert heard.grants


def test_grants_that_a_crash_took_back_are_found_out(server: Server, store: PostgresLimits) -> None:
    """Commits are asynchronous: those of the last moments are gone when the server is killed."""
    define(store, None, [(3, 600.0)])
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        admin.execute("SELECT pg_reload_conf()")
    time.sleep(0.5)  # longer than the writer was slow before
    a = process(store, "a")
    a.wants()
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("CHECKPOINT")
    kept = stored(store)
    assert len(a.wants(2)) == 2
    full = stored(store)
    server.kill()
    server.start()
    with suppress(MaybeApplied):
        stored(store)  # the connection may still be one of the server that was killed
    assert stored(store) == kept != full
    newcomer = process(store, "b")
    a.beats()
    assert newcomer.wants() == []
    assert newcomer.waits[0]["blocked_by"][0] == "relearning"
    assert stored(store)["generation"] == full["generation"] + 1


def test_a_process_that_is_killed_in_a_step_holds_up_nobody(server: Server, store: PostgresLimits) -> None:
    define(store, 1)
    with _stuck(server.url) as child:
        child.kill()
        begun = time.monotonic()
        assert len(process(store, "a").wants()) == 1
        assert time.monotonic() - begun < 20


@pytest.mark.slow
def test_a_process_that_is_frozen_in_a_step_is_cut_off(server: Server, store: PostgresLimits) -> None:
    define(store, 2)
    with _stuck(server.url) as child:
        os.kill(child.pid, signal.SIGSTOP)
        begun = time.monotonic()
        assert len(process(store, "a").wants()) == 1
        assert time.monotonic() - begun < 20
        os.kill(child.pid, signal.SIGCONT)
        said, _ = child.communicate("\n", timeout=30)
    assert said.strip() in {"StoreBusy", "MaybeApplied"}
    assert list(stored(store)["sessions"]) == ["a"]


STUCK = """
import sys
from forebay.errors import StoreError
from forebay.stores.postgres.limits import PostgresLimits
store = PostgresLimits(sys.argv[1])
def step(record, now):
    print("in", flush=True)
    sys.stdin.readline()
    return record | {"note": "late", "seats": {}}
try:
    store.change("api", step)
except StoreError as error:
    print(type(error).__name__, flush=True)
"""


@contextmanager
def _stuck(url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has the record locked and does not go on."""
    child = subprocess.Popen(
        [sys.executable, "-c", STUCK, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "in\n"
        yield child
    finally:
        child.kill()
        child.communicate()


@pytest.mark.slow
def test_a_lock_that_somebody_keeps_is_told_in_time(server: Server, store: PostgresLimits) -> None:
    define(store, 1)
    with psycopg.connect(server.url) as holder:
        holder.execute("SELECT FROM forebay_limits FOR UPDATE")
        begun = time.monotonic()
        with pytest.raises(StoreBusy):
            process(store, "a").wants()
        assert time.monotonic() - begun < 20
    assert len(process(store, "a").wants()) == 1


def waiting_for_a_lock(admin: psycopg.Connection[tuple[int]]) -> int:
    found = admin.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone()
    return found[0] if found else 0


@contextmanager
def locked(server: Server) -> Iterator[psycopg.Connection[tuple[int]]]:
    """Let somebody have the limit locked; gives a connection to look with."""
    with psycopg.connect(server.url) as somebody, psycopg.connect(server.url, autocommit=True) as admin:
        somebody.execute("SELECT * FROM forebay_limits FOR UPDATE")
        yield admin


def test_threads_of_a_process_wait_for_a_limit_with_one_connection(server: Server, store: PostgresLimits) -> None:
    define(store, 2)
    askers = [Process(store, HandClock(), f"p{number}") for number in range(4)]
    with ThreadPoolExecutor() as pool:
        with locked(server) as admin:
            asked = [pool.submit(asker.wants) for asker in askers]
            gives_up_at = time.monotonic() + 5
            while waiting_for_a_lock(admin) == 0 and time.monotonic() < gives_up_at:
                time.sleep(0.01)
            time.sleep(0.2)
            assert waiting_for_a_lock(admin) == 1
        assert sum(len(each.result()) for each in asked) == 2


def test_a_change_does_not_stand_behind_those_who_wait_for_the_lock(server: Server, store: PostgresLimits) -> None:
    define(store, 1)
    with ThreadPoolExecutor() as pool:
        with locked(server) as admin:
            changed = pool.submit(define, store, 2)
            time.sleep(0.2)
            assert waiting_for_a_lock(admin) == 0
            assert not changed.done()
        changed.result()
    assert stored(store)["eras"][-1]["terms"]["in_flight"] == 2


def test_a_server_that_is_read_only_is_told(server: Server, store: PostgresLimits) -> None:
    define(store, 1)
    store.close()
    with opened(f"{server.url}?options=-cdefault_transaction_read_only%3Don") as other, pytest.raises(StoreReadOnly):
        process(other, "a").wants()


@pytest.mark.parametrize("way", ["refuses", "drops"])
def test_behind_a_pooler_all_of_it_works_but_the_wakes(server: Server, store: PostgresLimits, way: str) -> None:
    define(store, 1)
    with pooler(server.url, drops=way == "drops") as between, opened(between.url) as other:
        heard = Heard()
        other.listen("b", heard)
        a, b = process(store, "a"), process(other, "b")
        held = a.wants()
        assert b.wants() == []
        a.gives_back(held)
        b.beats()
        assert len(b.calls) == 1
        define(other, 3, name="more")
        assert other.names() == [LIMIT, "more"]
        locked = next(message for message in between.seen if b"FOR NO KEY UPDATE" in message)
        assert b"SET LOCAL synchronous_commit = 'off'" in locked
        assert not [message for message in between.seen if b"PREPARE" in message or b"LISTEN" in message]
        assert not heard.event.is_set()


def test_statements_that_somebody_dropped_are_prepared_again(store: PostgresLimits) -> None:
    define(store, 1)
    with store._links.use() as link:
        link.say(b"DEALLOCATE ALL")
    a = process_without_reading(store)
    with pytest.raises(StoreBusy):
        store.exchange(LIMIT, a)
    assert store.exchange(LIMIT, a)["status"] == "ok"


def process_without_reading(store: PostgresLimits) -> Ask:
    return Process(store, HandClock(), "a").ask()


def test_threads_share_the_store(store: PostgresLimits) -> None:
    threads_share(store)


def test_close_ends_the_listener_and_frees_the_connections(server: Server) -> None:
    closing_ends_its_thread(PostgresLimits(server.url))
    query = "SELECT FROM pg_stat_activity WHERE application_name = 'forebay'"
    with psycopg.connect(server.url, autocommit=True) as admin:
        deadline = time.monotonic() + 30
        while admin.execute(query).fetchall() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not admin.execute(query).fetchall()
        admin.execute("DROP TABLE forebay_limits")


TELL = """
with store._links.use() as link:
    told = '{"limit": "a", "now": 1, "grants": []}'
    link.execute("SELECT pg_notify(%s, %s)", (store._channel("parent"), told))
"""


@pytest.mark.slow
def test_a_child_of_a_fork_has_connections_of_its_own(server: Server) -> None:
    a_child_of_a_fork_is_apart(PostgresLimits, TELL, server.url)
