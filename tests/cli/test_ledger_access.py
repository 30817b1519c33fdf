"""Commands that look create and migrate nothing, and a ledger serves one environment, on SQLite and PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from forebay.stores.address import newest_schema
from forebay.stores.sqlite.connection import connect
from tests.cli.ground import Ground, program
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server

LOOKING = [
    ("list",),
    ("doctor",),
    ("workers",),
    ("lanes", "list"),
    ("dead", "list"),
    ("store", "check"),
    ("keys", "list"),
]
TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"


@pytest.fixture
def address(here: Ground, postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty place in PostgreSQL, which the settings name as the ledger."""
    with fresh_schema(postgres_server) as address:
        monkeypatch.setenv("FOREBAY_LEDGER", address)
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(here: Ground, request: pytest.FixtureRequest) -> str:
    """The address of a ledger that is not there yet."""
    if request.param == "postgresql":
        found: str = request.getfixturevalue("address")
        return found
    return f"sqlite:///{here.ledger}"


def tables(address: str) -> int:
    with psycopg.connect(address, autocommit=True) as db:
        row = db.execute(TABLES).fetchone()
    assert row is not None
    return int(row[0])


def make_older(address: str) -> Callable[[], int]:
    """Have a ledger say that it is one schema behind; returns how to ask for the one that it has."""
    newest = newest_schema(address) or 0
    if address.startswith("sqlite"):
        file = Path(address.removeprefix("sqlite:///"))

        def asked(statement: str) -> int:
            db = connect(file)
            try:
                return int(next(iter(db.execute(statement)), (0,))[0])
            finally:
                db.close()

        asked(f"PRAGMA user_version = {newest - 1}")
        return lambda: asked("PRAGMA user_version")
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(f"COMMENT ON TABLE forebay_tasks IS 'Forebay ledger, schema {newest - 1}'".encode())

    def schema() -> int:
        with psycopg.connect(address, autocommit=True) as db:
            row = db.execute("SELECT obj_description('forebay_tasks'::regclass, 'pg_class')").fetchone()
        assert row is not None
        return int(str(row[0]).rpartition(" ")[2])

    return schema


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_a_command_that_looks_creates_no_tables(here: Ground, address: str, command: tuple[str, ...]) -> None:
    answer = here.run(*command)
    assert tables(address) == 0
    if command != ("doctor",):
        assert answer.code == 5, answer
        assert "There is no ledger at" in answer.err
        assert "forebay store init" in answer.err


@pytest.mark.parametrize("command", [("limits", "list"), ("limits", "show", "adobe"), ("lanes", "list")], ids=" ".join)
def test_a_command_that_looks_at_limits_creates_nothing(here: Ground, ledger: str, command: tuple[str, ...]) -> None:
    answer = here.run(*command)
    assert answer.code in {0, 1, 4, 5}, answer
    assert "Traceback" not in answer.err
    if ledger.startswith("sqlite"):
        assert sorted(here.ledger.parent.rglob("*.db*")) == []
    else:
        assert tables(ledger) == 0


def test_limits_that_were_never_stored_are_none_and_can_be_set(here: Ground, address: str) -> None:
    assert here.ok("limits", "list", "-o", "json").json == []
    for command in (("show", "adobe"), ("pause", "adobe"), ("clear", "adobe")):
        missing = here.run("limits", *command)
        assert "There is no limit 'adobe'" in missing.err, missing
        assert tables(address) == 0
    here.ok("limits", "set", "adobe", "--in-flight", "3")
    (stored,) = here.ok("limits", "list", "-o", "json").json
    assert stored["limit"]["in_flight"] == 3


def test_doctor_says_that_there_is_no_ledger(here: Ground, ledger: str) -> None:
    answer = here.run("doctor", "-o", "json")
    found = [each for each in answer.json if each["name"] == "ledger"]
    assert [each["verdict"] for each in found] == ["warn"], ledger
    assert "store init" in found[0]["remedy"]


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_a_command_that_looks_leaves_an_older_ledger_as_it_is(
    here: Ground, ledger: str, command: tuple[str, ...]
) -> None:
    here.ok("store", "init")
    schema = make_older(ledger)
    older = schema()
    answer = here.run(*command)
    assert schema() == older
    said = answer.out if command == ("doctor",) else answer.err
    assert "forebay store migrate" in said, answer
    if command != ("doctor",):
        assert answer.code == 5


@pytest.mark.slow
def test_a_worker_on_postgresql_refuses_an_older_ledger_and_says_what_to_run(here: Ground, address: str) -> None:
    here.ok("store", "init")
    schema = make_older(address)
    older = schema()
    answer = program("worker", "--until-idle")
    assert (answer.returncode, schema()) == (5, older), answer
    assert "forebay store migrate" in answer.stderr


def test_a_file_that_is_older_is_migrated_by_whoever_submits(here: Ground) -> None:
    here.ok("store", "init")
    db = connect(here.ledger)
    db.execute("ALTER TABLE sessions DROP COLUMN progress")  # what the newest migration adds
    db.execute(f"PRAGMA user_version = {(newest_schema(f'sqlite:///{here.ledger}') or 0) - 1}")
    db.close()
    here.ok("submit", "-t", "add")
    assert here.ok("list").out


def test_store_migrate_does_not_make_a_ledger_where_none_is(here: Ground, ledger: str) -> None:
    answer = here.run("store", "migrate")
    assert answer.code == 5, ledger
    assert "There is no ledger" in answer.err


def test_a_ledger_serves_one_environment(here: Ground, ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_ENV", "prod")
    here.ok("submit", "-t", "add")
    monkeypatch.setenv("FOREBAY_ENV", "staging")
    for command in (("list",), ("submit", "-t", "add"), ("workers",)):
        answer = here.run(*command)
        assert answer.code == 5, ledger
        assert "belongs to environment 'prod', and this process runs in 'staging'" in answer.err
        assert "FOREBAY_ENV=prod" in answer.err
    monkeypatch.setenv("FOREBAY_ENV", "prod")
    assert len(here.ok("list", "-o", "ndjson").lines) == 1


@pytest.mark.slow
def test_a_worker_of_another_environment_is_refused(here: Ground, ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_ENV", "prod")
    here.ok("submit", "-t", "add")
    monkeypatch.setenv("FOREBAY_ENV", "staging")
    answer = program("worker", "--until-idle")
    assert answer.returncode == 5, ledger
    assert "belongs to environment 'prod'" in answer.stderr


def test_looking_gives_a_ledger_to_nobody(here: Ground, ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_ENV", "staging")
    here.ok("store", "init")
    here.ok("list")
    here.run("doctor")
    monkeypatch.setenv("FOREBAY_ENV", "prod")
    here.ok("submit", "-t", "add")
    assert "environment prod" in here.run("doctor").out, ledger


def test_doctor_shows_the_environment_of_another_ledger(
    here: Ground, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_ENV", "prod")
    here.ok("submit", "-t", "add")
    monkeypatch.setenv("FOREBAY_ENV", "staging")
    answer = here.run("doctor")
    assert answer.code == 1, ledger
    assert "belongs to environment 'prod'" in answer.out


def test_a_ledger_that_belongs_to_the_wrong_environment_can_be_given_to_another(
    here: Ground, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.ok("submit", "-t", "add")
    monkeypatch.setenv("FOREBAY_ENV", "prod")
    assert here.run("list").code == 5, ledger
    assert "environment prod" in here.ok("store", "adopt").out
    assert len(here.ok("list", "-o", "ndjson").lines) == 1


def test_a_ledger_in_use_is_not_given_away(here: Ground, ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with here.worker("worker-7"):
        monkeypatch.setenv("FOREBAY_ENV", "prod")
        answer = here.run("store", "adopt")
    assert answer.code == 1, ledger
    assert "worker-7" in answer.err


@pytest.mark.slow
def test_of_processes_that_come_at_once_those_of_one_environment_get_the_ledger(here: Ground, ledger: str) -> None:
    here.ok("store", "init")
    names = ["prod", "staging"] * 2
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "forebay", "submit", "-t", "add"],
            env={**os.environ, "FOREBAY_ENV": name},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for name in names
    ]
    codes = [each.wait(60) for each in started]
    for each in started:
        each.communicate()
    took = {name for name, code in zip(names, codes, strict=True) if code == 0}
    assert sorted(codes) == [0, 0, 5, 5], ledger
    assert len(took) == 1
