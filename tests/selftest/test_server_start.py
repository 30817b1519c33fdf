"""Shows which server a test gets, and what it is told when there is none."""

import shutil
import socket
from contextlib import AbstractContextManager, closing
from pathlib import Path

import psycopg
import pytest

from tests.selftest.script import Script
from tests.servers import ministack, postgres, postgres_user, process, seaweedfs, valkey
from tests.servers.ports import LOOPBACK, ReservedPorts
from tests.servers.process import ServerError, ServerProcess, started
from tests.servers.recipe import Command, Place
from tests.servers.server import Server

MODULES = (postgres, valkey, seaweedfs)


def serve(module: object, *, own: bool = False) -> AbstractContextManager[Server]:
    name = str(getattr(module, "__name__", "")).rpartition(".")[2]
    context: AbstractContextManager[Server] = getattr(module, name)(own=own)
    return context


@pytest.mark.parametrize("module", MODULES)
def test_given_server_is_used_and_never_stopped(module: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(str(getattr(module, "VARIABLE", "")), "scheme://given")
    with serve(module) as server:
        assert server.url == "scheme://given"
        with pytest.raises(ServerError, match="own=True"):
            server.kill()


def test_given_dynamodb_is_used_beside_our_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ministack.VARIABLE, "http://given")
    with ministack.ministack() as server:
        assert server.dynamodb_url == "http://given"
        assert server.url.startswith(f"http://{LOOPBACK}:")


def test_test_that_needs_its_own_server_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(valkey.VARIABLE, "redis://given")
    with valkey.valkey(own=True) as server:
        assert server.url != "redis://given"
        server.kill()


@pytest.mark.parametrize("module", MODULES)
def test_missing_server_says_what_to_install(module: object, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = str(getattr(module, "VARIABLE", ""))
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(module, "program_in_wheel", lambda *_: None)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(postgres, "SYSTEM_INSTALLS", Path("/nowhere"))
    with (
        pytest.raises(ServerError, match=rf"is missing: .*Install.*{variable}"),
        serve(module),
    ):
        pass


def test_server_that_ends_reports_its_log() -> None:
    broken = Script("import sys; print('no disk today'); sys.exit(3)")
    with pytest.raises(ServerError, match=r"script did not start: it ended with 3.*\nno disk today"):
        started(broken)


def test_server_that_never_gets_ready_reports_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "READY_WITHIN_S", 0.5)
    silent = Script("import time; print('thinking', flush=True); time.sleep(600)")
    with pytest.raises(ServerError, match=r"not ready within .*\nthinking"):
        started(silent)


def test_server_that_is_no_program_says_so() -> None:
    class Nonsense(Script):
        def command(self, place: Place) -> Command:
            return Command([str(place.folder / "nonsense")])

    with pytest.raises(ServerError, match=r"could not be started: .*nonsense"):
        started(Nonsense(""))


def test_server_that_did_not_start_leaves_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Path] = []

    def close(server: ServerProcess, really_close: object = ServerProcess.close) -> None:
        folders.append(server.place.folder)
        assert callable(really_close)
        really_close(server)

    monkeypatch.setattr(ServerProcess, "close", close)
    with pytest.raises(ServerError):
        started(Script("raise SystemExit(1)"))
    assert [folder.exists() for folder in folders] == [False]


@pytest.mark.slow
def test_port_that_another_program_took_is_replaced() -> None:
    class Robbed(valkey.Valkey):
        def command(self, place: Place) -> Command:
            if not thieves:
                thieves.append(socket.create_server((LOOPBACK, place.port)))
            return super().command(place)

    thieves: list[socket.socket] = []
    server = started(Robbed())
    with server, closing(thieves[0]):
        assert server.place.port != thieves[0].getsockname()[1]


def test_reserved_ports_are_never_given_twice() -> None:
    reservations = [ReservedPorts(5, companion_offset=10_000) for _ in range(40)]
    try:
        numbers = [
            number + offset for reserved in reservations for number in reserved.numbers for offset in (0, 10_000)
        ]
        assert len(set(numbers)) == len(numbers)
    finally:
        for reserved in reservations:
            reserved.release()


@pytest.mark.slow
def test_postgres_runs_without_user_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_user, "_works", lambda *_, **__: False)
    with postgres.postgres(own=True) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
