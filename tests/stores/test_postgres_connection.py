"""Connections to PostgreSQL: our settings, sound or not at all, never for ever, also through a pooler and a fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from forebay.errors import (
    BadInput,
    MaybeApplied,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreReadOnly,
    StoreUnreachable,
)
from forebay.stores.postgres.connection import Links, Server
from forebay.stores.postgres.listener import Listener
from forebay.stores.postgres.trouble import told
from tests.servers import server as servers
from tests.servers.pooler import pooler
from tests.servers.postgres import postgres

SECRET = "hunter2-not-to-be-shown"
SETTINGS = {
    "statement_timeout": "700ms",
    "lock_timeout": "300ms",
    "idle_in_transaction_session_timeout": "400ms",
    "default_transaction_isolation": "repeatable read",
}


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    with postgres(own=True) as server:
        yield server


def at(url: str, *, timeout_s: float = 1.0) -> Server:
    return Server(url, settings=SETTINGS, timeout_s=timeout_s)


@pytest.fixture
def links(server: servers.Server) -> Iterator[Links]:
    links = Links(at(server.url))
    yield links
    links.close()


def backend(links: Links) -> int:
    with links.use() as link:
        ((pid,),) = link.execute("SELECT pg_backend_pid()").fetchall()
        return int(pid)


def wait_for(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline, "it has not come"
        time.sleep(0.005)


def test_a_connection_has_our_settings_and_our_name(links: Links) -> None:
    with links.use() as link:
        assert not link.shared
        shown = [link.execute(f"SHOW {name}").fetchone() for name in (*SETTINGS, "application_name")]
    assert shown == [("700ms",), ("300ms",), ("400ms",), ("repeatable read",), ("forebay",)]


def test_what_the_address_says_wins(server: servers.Server) -> None:
    links = Links(at(f"{server.url}?application_name=mine&options=-csearch_path%3Dpg_catalog"))
    with links.use() as link:
        assert link.execute("SHOW application_name").fetchone() == ("mine",)
        assert link.execute("SHOW search_path").fetchone() == ("pg_catalog",)
        assert link.execute("SHOW lock_timeout").fetchone() == ("300ms",)
    links.close()


@pytest.mark.parametrize("way", ["refuses", "drops"])
def test_through_a_pooler_each_transaction_has_our_settings(server: servers.Server, way: str) -> None:
    with pooler(server.url, drops=way == "drops") as between:
        links = Links(at(between.url))
        with links.use() as link:
            assert link.shared
            assert link.prepare_threshold is None
            pids = set()
            for _ in range(4):
                link.execute(link.begin)
                assert link.execute("SHOW lock_timeout").fetchone() == ("300ms",)
                pids.add(str(link.execute("SELECT pg_backend_pid()").fetchone()))
                link.execute("COMMIT")
            assert len(pids) == 2
            assert link.execute("SHOW lock_timeout").fetchone() == ("0",)
        links.close()


def test_a_connection_is_used_again(links: Links) -> None:
    assert backend(links) == backend(links)


def test_one_that_is_an_hour_old_is_opened_anew(links: Links) -> None:
    with links.use() as link:
        first = link.info.backend_pid
        assert 2800 < link.expires_at - time.monotonic() <= 3600
        link.expires_at = time.monotonic()
    assert backend(links) != first


def test_one_that_the_server_has_ended_is_not_handed_out(server: servers.Server, links: Links) -> None:
    first = backend(links)
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(%s)", (first,))
    time.sleep(0.15)  # longer than one is taken to be open without a look
    assert backend(links) != first


def test_a_transaction_that_is_left_open_is_rolled_back(links: Links) -> None:
    with links.use() as link:
        link.execute("CREATE TEMP TABLE t (n int)")
        link.execute("BEGIN")
        link.execute("INSERT INTO t VALUES (1)")
    with suppress(ZeroDivisionError), links.use() as link:
        link.execute("BEGIN; INSERT INTO t VALUES (2)")
        raise ZeroDivisionError
    with links.use() as link:
        assert link.execute("SELECT count(*) FROM t").fetchone() == (0,)


def _idle(link: psycopg.Connection[tuple[object, ...]]) -> None:
    link.execute("BEGIN")
    time.sleep(0.6)
    link.execute("SELECT 1")


STEPS: dict[str, tuple[Callable[[psycopg.Connection[tuple[object, ...]]], object], type[StoreError]]] = {
    "too slow": (lambda link: link.execute("SELECT pg_sleep(5)"), StoreBusy),
    "idle in a transaction": (_idle, StoreBusy),
    "read only": (lambda link: link.execute("BEGIN READ ONLY; CREATE TABLE t ()"), StoreReadOnly),
    "ended meanwhile": (lambda link: link.execute("SELECT pg_terminate_backend(pg_backend_pid())"), MaybeApplied),
    "a mistake": (lambda link: link.execute("SELECT nonsense"), StoreError),
}


@pytest.mark.parametrize("step", STEPS)
def test_what_went_wrong_is_told_and_the_next_one_is_sound(links: Links, step: str) -> None:
    do, problem = STEPS[step]
    with pytest.raises(problem) as caught, links.use() as link:
        do(link)
    assert type(caught.value) is problem
    with links.use() as link:
        assert link.execute("SELECT 1").fetchone() == (1,)


def test_a_lock_that_another_holds_is_waited_for_briefly(server: servers.Server, links: Links) -> None:
    with psycopg.connect(server.url) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(1)")
        begun = time.monotonic()
        with pytest.raises(StoreBusy), links.use() as link:
            link.execute("SELECT pg_advisory_lock(1)")
        assert time.monotonic() - begun < 20


@pytest.mark.parametrize("how", ["execute", "say"])
def test_a_server_that_is_silent_is_given_up_and_the_call_may_have_been_done(links: Links, how: str) -> None:
    pid = backend(links)
    os.kill(_on_this_machine(pid), signal.SIGSTOP)
    begun = time.monotonic()
    try:
        with pytest.raises(MaybeApplied, match="no answer within"), links.use() as link:
            link.execute("SELECT 1") if how == "execute" else link.say(b"SELECT 1")
    finally:
        took = time.monotonic() - begun
        os.kill(pid, signal.SIGCONT)
    assert 0.9 < took < 20
    assert backend(links) != pid


def _on_this_machine(pid: int) -> int:
    """The test servers have no namespace of process ids."""
    assert b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return pid


def test_a_server_that_is_away_is_told(server: servers.Server, links: Links) -> None:
    backend(links)
    server.stop()
    time.sleep(0.15)  # longer than one is taken to be open without a look
    begun = time.monotonic()
    with pytest.raises(StoreUnreachable, match="Check that it runs"):
        backend(links)
    assert time.monotonic() - begun < 20
    server.start()
    assert backend(links)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("the database system is starting up", StoreBusy),
        ("the database system is shutting down", StoreBusy),
        ("the database system is in recovery mode", StoreBusy),
        ("the database system is not yet accepting connections", StoreBusy),
        ('database "nowhere" does not exist', StoreError),
    ],
)
def test_a_server_that_is_not_there_yet_is_told_from_one_that_has_no_such_database(
    said: str, kind: type[StoreError]
) -> None:
    error = psycopg.OperationalError(f"connection failed: FATAL:  {said}")
    with pytest.raises(StoreError) as caught, told("postgresql://host/db", sent=False):
        raise error
    assert type(caught.value) is kind


def test_a_closed_pool_says_so_and_closes_what_is_given_back(server: servers.Server) -> None:
    links = Links(at(server.url))
    with links.use() as link:
        links.close()
        assert not link.closed
    assert link.closed
    with pytest.raises(StoreClosed), links.use():
        pass


@pytest.mark.parametrize(
    "address",
    [
        f"http://u:{SECRET}@host/db",
        f"postgresql://u:{SECRET}/x@host/db",
        f"postgresql://u:{SECRET}@x@host/db",
        f"postgresql://u:x#{SECRET}@host/db",
        f"postgresql://u:{SECRET}@[host/db",
        f"postgresql://u:{SECRET}%zz@host/db",
        f"postgresql://host/db?{SECRET}=1",
        f"host=x password={SECRET}",
        "",
    ],
)
def test_an_address_that_is_none_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(BadInput) as caught:
        at(address)
    seen: BaseException | None = caught.value
    while seen is not None:
        assert SECRET not in f"{seen} {seen!r}"
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (f"postgresql://u:{SECRET}@host/db", "postgresql://host:5432/db"),
        (f"postgres://u:{SECRET}@a:1,b:2/db?target_session_attrs=any", "postgresql://a:1,b:2/db"),
        (f"postgresql://u:x?{SECRET}@host/db", "postgresql://host:5432/db"),
        (f"postgresql://[::1]:77/db?password={SECRET}", "postgresql://[::1]:77/db"),
        (f"postgresql:///db?host=/run/pg&password={SECRET}", "postgresql:///run/pg:5432/db"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, place: str) -> None:
    assert at(address).place == place


def test_a_wrong_password_is_said_and_never_shown(server: servers.Server) -> None:
    with psycopg.connect(server.url, autocommit=True) as admin:
        ((file,),) = admin.execute("SHOW hba_file").fetchall()
        before = Path(str(file)).read_text()
        admin.execute("CREATE ROLE ada LOGIN PASSWORD 'right'")
        Path(str(file)).write_text(f"host all ada all scram-sha-256\n{before}")
        admin.execute("SELECT pg_reload_conf()")
        time.sleep(0.2)  # the server reads it when it comes to it
        host = server.url.partition("@")[2]
        for password, user in ((SECRET, "ada"), ("", "ada"), (SECRET, "nobody")):
            links = Links(at(f"postgresql://{user}:{password}@{host}"))
            error = _refusal(links)
            assert error is not None
            assert "Check user and password" in str(error)
            seen: BaseException | None = error
            while seen is not None:
                assert SECRET not in f"{seen} {seen!r}"
                seen = seen.__cause__ or seen.__context__
        right = Links(at(f"postgresql://ada:right@{host}"))
        assert backend(right)
        right.close()


def _refusal(links: Links) -> StoreError | None:
    try:
        backend(links)
    except StoreError as error:
        return error
    return None


class TestListener:
    @pytest.fixture
    def listener(self, server: servers.Server) -> Iterator[Listener]:
        listener = Listener(at(server.url))
        yield listener
        listener.close()

    def tell(self, server: servers.Server, channel: str, payload: str) -> None:
        with psycopg.connect(server.url, autocommit=True) as teller:
            teller.execute("SELECT pg_notify(%s, %s)", (channel, payload))

    def test_all_who_listen_hear_and_those_who_stopped_do_not(self, server: servers.Server, listener: Listener) -> None:
        heard: list[tuple[str, str]] = []
        threads = threading.active_count()
        stop = listener.add("Some 'channel\"", lambda payload: heard.append(("a", payload)))
        listener.add("Some 'channel\"", lambda payload: heard.append(("b", payload)))
        listener.add("other", lambda payload: heard.append(("c", payload)))
        assert threading.active_count() == threads + 1
        self.tell(server, "Some 'channel\"", "one")
        wait_for(lambda: len(heard) == 2)
        stop()
        self.tell(server, "Some 'channel\"", "two")
        self.tell(server, "other", "three")
        wait_for(lambda: ("c", "three") in heard)
        assert heard == [("a", "one"), ("b", "one"), ("b", "two"), ("c", "three")]

    def test_a_mistake_of_one_does_not_end_it_for_others(self, server: servers.Server, listener: Listener) -> None:
        heard: list[str] = []

        def hear(payload: str) -> None:
            if payload == "one":
                raise ZeroDivisionError
            heard.append(payload)

        listener.add("c", hear)
        self.tell(server, "c", "one")
        self.tell(server, "c", "two")
        wait_for(lambda: heard == ["two"])

    def test_after_a_restart_all_are_told_that_something_may_be_missed(
        self, server: servers.Server, listener: Listener
    ) -> None:
        heard: list[str] = []
        listener.add("c", heard.append)
        assert heard == []
        server.stop()
        server.start()
        wait_for(lambda: heard == [""])
        self.tell(server, "c", "again")
        wait_for(lambda: heard == ["", "again"])

    @pytest.mark.slow
    def test_nobody_waits_for_a_server_that_is_away(self) -> None:
        with postgres(own=True) as server:
            url = server.url
        listener = Listener(at(url))
        begun = time.monotonic()
        listener.add("c", lambda _: None)
        assert time.monotonic() - begun < 20
        listener.close()

    def test_through_a_pooler_it_is_deaf_and_leaves_nothing_behind(self, server: servers.Server) -> None:
        with pooler(server.url) as between:
            listener = Listener(at(between.url))
            threads = threading.active_count()
            listener.add("c", lambda _: None)
            wait_for(lambda: listener.deaf)
            listener.add("d", lambda _: None)()
            listener.close()
            assert not [message for message in between.seen if b"LISTEN" in message]
        assert threading.active_count() <= threads

    def test_a_closed_one_says_so(self, listener: Listener) -> None:
        listener.close()
        with pytest.raises(StoreClosed):
            listener.add("c", lambda _: None)


FORKING = """
import os, sys, time
from forebay.stores.postgres.connection import Links, Server
from forebay.stores.postgres.listener import Listener
from forebay.stores.postgres.trouble import told
server = Server(sys.argv[1], settings={}, timeout_s=5)
links, listener, heard = Links(server), Listener(server), []
listener.add("c", heard.append)
with links.use() as link:
    mine = link.info.backend_pid
    pid = os.fork()
    if pid == 0:
        assert link.closed
        del link, links, listener
        import gc; gc.collect()
        with Links(server).use() as own:
            assert own.execute("SELECT 1").fetchone() == (1,)
            own.close()
        os._exit(0)
    for _ in range(200):
        assert link.execute("SELECT pg_backend_pid()").fetchone() == (mine,)
    assert os.waitpid(pid, 0)[1] == 0
    assert link.execute("SELECT pg_backend_pid()").fetchone() == (mine,)
    link.execute("SELECT pg_notify('c', 'x')")
deadline = time.monotonic() + 20
while not heard and time.monotonic() < deadline:
    time.sleep(0.01)
assert heard == ["x"], heard
listener.close()
links.close()
print("sound")
"""


def test_a_child_of_a_fork_leaves_the_connections_of_its_parent_alone(server: servers.Server) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", FORKING, server.url],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("sound\n", "")


def test_without_the_package_the_line_to_run_is_told() -> None:
    code = "import sys; sys.modules['psycopg'] = None\nimport forebay.stores.postgres.limits"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=150, check=False)
    assert "MissingExtra" in done.stderr
    assert "pip install 'forebay[postgres]'" in done.stderr
