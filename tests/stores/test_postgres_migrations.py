"""The tables of a PostgreSQL ledger are made once, by whoever comes first, and are refused when they are not ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from forebay import ids
from forebay.errors import SchemaTooNew, StoreCorrupt, StoreReadOnly
from forebay.model.access import Access
from forebay.model.exchange import Session
from forebay.model.query import Query
from forebay.model.task import NewTask
from forebay.stores.postgres import schema
from forebay.stores.postgres.ledger import PostgresLedger
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server

OPENS = """
import sys
from forebay.model.task import NewTask
from forebay.stores.postgres.ledger import PostgresLedger
ledger = PostgresLedger(sys.argv[1])
sys.stdin.readline()
print(ledger.submit([NewTask(kind="work")])[0].outcome)
"""


@pytest.fixture
def address(postgres_server: Server) -> Iterator[str]:
    with fresh_schema(postgres_server) as address:
        yield address


@pytest.mark.slow
def test_processes_that_come_at_once_make_the_tables_once(address: str) -> None:
    command = [sys.executable, "-c", OPENS, address]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for each in started:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    assert [each.communicate(timeout=100)[0].strip() for each in started] == ["created"] * 3
    with PostgresLedger(address) as ledger:
        assert sum(ledger.count().values()) == 3


def test_tables_of_a_newer_version_are_refused_and_left_alone(address: str) -> None:
    with PostgresLedger(address) as ledger:
        ledger.submit([NewTask(kind="work")])
    with psycopg.connect(address, autocommit=True) as db:
        db.execute("COMMENT ON TABLE forebay_tasks IS 'Forebay ledger, schema 99'")
    with PostgresLedger(address) as ledger, pytest.raises(SchemaTooNew, match="schema 99"):
        ledger.sessions()


def test_a_table_of_another_program_is_refused_and_left_alone(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as db:
        db.execute("CREATE TABLE forebay_tasks (mine int)")
    with PostgresLedger(address) as ledger, pytest.raises(StoreCorrupt, match="another program"):
        ledger.sessions()
    with psycopg.connect(address, autocommit=True) as db:
        found = db.execute("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()").fetchone()
        assert found == (1,)


def test_a_ledger_of_which_a_table_was_dropped_is_told_and_left_alone(address: str) -> None:
    with PostgresLedger(address) as ledger:
        ledger.sessions()
    with psycopg.connect(address, autocommit=True) as db:
        db.execute("DROP TABLE forebay_tasks CASCADE")
    with PostgresLedger(address) as ledger, pytest.raises(StoreCorrupt, match="forebay_tasks is not") as caught:
        ledger.sessions()
    assert "backup" in caught.value.remedy


def test_a_migration_that_fails_leaves_nothing_behind(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(schema.LEDGER)
    broken.migrations[broken.newest + 1] = "SELECT 1 / 0"
    monkeypatch.setattr(schema, "LEDGER", broken)
    with PostgresLedger(address) as ledger, pytest.raises(Exception, match="division by zero"):
        ledger.sessions()
    with psycopg.connect(address, autocommit=True) as db:
        found = db.execute("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()").fetchone()
        assert found == (0,)


def test_whoever_may_not_make_tables_is_told_what_to_do(address: str, postgres_server: Server) -> None:
    role = "forebay_test_reader"
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN".encode())
    with psycopg.connect(address, autocommit=True) as owner:
        owner.execute(
            f"DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO {role}', current_schema()); END $$".encode()
        )
    poor = address.replace("postgres@", f"{role}@", 1)
    with PostgresLedger(poor) as ledger, pytest.raises(StoreReadOnly) as caught:
        ledger.sessions()
    assert "right to create" in caught.value.remedy
    with psycopg.connect(address, autocommit=True) as owner:
        owner.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


@pytest.fixture
def worker_role(address: str) -> Iterator[str]:
    role = f"forebay_test_{ids.random_id()}"
    with psycopg.connect(address, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN".encode())
        yield role
        owner.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


@pytest.mark.parametrize("granted", [True, False], ids=["granted", "not granted"])
def test_whoever_may_use_the_older_tables_may_use_those_that_a_migration_adds(
    address: str, worker_role: str, *, granted: bool
) -> None:
    with psycopg.connect(address, autocommit=True) as owner:
        for number in range(1, 6):
            owner.execute(schema.LEDGER.migrations[number])
        owner.execute("COMMENT ON TABLE forebay_tasks IS 'Forebay ledger, schema 5'")
        rights = "SELECT, INSERT, UPDATE, DELETE" if granted else "SELECT"
        for right in ("USAGE ON SCHEMA", f"{rights} ON ALL TABLES IN SCHEMA"):
            grant = f"format('GRANT {right} %I TO {worker_role}', current_schema())"
            owner.execute(f"DO $$ BEGIN EXECUTE {grant}; END $$".encode())
        # As an owner would have left it who granted before these tables were there.
        owner.execute(f"REVOKE ALL ON forebay_task_tags, forebay_job_tags FROM {worker_role}".encode())
    with PostgresLedger(address, access=Access.MIGRATE) as ledger:
        ledger.sessions()
    with PostgresLedger(address.replace("postgres@", f"{worker_role}@", 1), access=Access.AS_IS) as ledger:
        if not granted:
            with pytest.raises(StoreReadOnly):
                ledger.submit([NewTask(kind="work", tags=("red",))])
            return
        (made,) = ledger.submit([NewTask(kind="work", tags=("red",))])
        ledger.open_session(Session(id=ids.random_id(), worker="w", host="machine-7", version="1.2.3"))
        assert [task.id for task in ledger.list_tasks(Query(tag="red")).items] == [made.id]
        assert [(each.host, each.version) for each in ledger.sessions()] == [("machine-7", "1.2.3")]
