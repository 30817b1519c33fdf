"""The statements of a limit's step seek their rows, be the tables empty or full: none reads all rows of a limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import apsw
import psycopg
import pytest

from forebay.stores.postgres import limit_queries as postgres_queries
from forebay.stores.postgres.limits import _SETTINGS, PostgresLimits
from forebay.stores.sqlite import limit_queries as sqlite_queries
from forebay.stores.sqlite.limits import SqliteLimits
from forebay.testing.limits.case import define
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import Process
from tests.servers.fresh import fresh_database
from tests.servers.server import Server

WHOLE = {"sessions", "runs", "calls", "tails", "windows", "totals"}
"""They read all of a limit, by its id."""
FIRST = {"first_tails", "near_sessions"}
"""They read the first of a limit, up to a number, by its id and in the order of an index."""
Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[apsw.Connection]:
    with SqliteLimits(tmp_path / "limits.db") as store:
        define(store, 1)
    db = apsw.Connection(str(tmp_path / "limits.db"))
    yield db
    db.close()


def _plan(db: apsw.Connection, name: str) -> list[str]:
    text = sqlite_queries.sql(name)
    numbered = {*re.findall(r"\?(\d+)", text)}
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {text}", (None,) * (len(numbered) or text.count("?")))]


@pytest.mark.parametrize("name", sqlite_queries.names())
def test_in_sqlite_each_statement_seeks(name: str, file: apsw.Connection) -> None:
    plan = _plan(file, name)
    scans = [
        step
        for step in plan
        if step.startswith("SCAN") and step != "SCAN CONSTANT ROW" and not step.startswith("SCAN (subquery")
    ]
    assert scans == []
    assert not [step for step in plan if "TEMP B-TREE" in step and name not in WHOLE]
    if name not in WHOLE | FIRST:
        assert not [step for step in plan if step.endswith("(limit_id=?)")]


def test_in_sqlite_a_plan_that_reads_a_table_is_found_out(file: apsw.Connection) -> None:
    file.execute("DROP INDEX limit_runs_line")
    assert [step for step in _plan(file, "near_runs") if "TEMP B-TREE" in step]


@pytest.fixture(scope="module")
def url(postgres_server: Server) -> Iterator[str]:
    with fresh_database(postgres_server) as url:
        store = PostgresLimits(url)
        define(store, 1)
        store.close()
        yield url


@pytest.fixture(params=["empty", "full"])
def database(request: pytest.FixtureRequest, url: str) -> Iterator[Connection]:
    if request.param == "full":
        store = PostgresLimits(url)
        define(store, 2, [(3, 60.0)], name="full")
        for number in range(60):
            Process(store, HandClock(), f"p{number}", limit="full").wants(2, key=f"k{number}")
        store.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")
        for name, value in _SETTINGS.items():
            connection.execute(f"SET {name} = '{value}'")
        yield connection


def _explained(connection: Connection, name: str) -> list[str]:
    text = postgres_queries.sql(name)
    count = max(int(number) for number in re.findall(r"\$(\d+)", text))
    connection.execute(f"PREPARE asked AS {text}")
    nothing = ", ".join(["NULL"] * count)
    rows = connection.execute(f"EXPLAIN (COSTS OFF) EXECUTE asked({nothing})").fetchall()
    connection.execute("DEALLOCATE asked")
    return [line for (line,) in rows]


OF_A_STEP = sorted({*postgres_queries.NAMES} - WHOLE - {"read", "add", "names", "tell"} | {"windows"})


@pytest.mark.parametrize("name", OF_A_STEP)
def test_in_postgres_each_statement_of_a_step_seeks(name: str, database: Connection) -> None:
    plan = _explained(database, name)
    assert not [line for line in plan if "Seq Scan" in line or "Sort" in line.split("(")[0]]
    conditions = [line.partition("Index Cond: ")[2] for line in plan if "Index Cond: " in line]
    assert conditions
    whole = [condition for condition in conditions if re.fullmatch(r"\(limit_id = '?\$1'?(::bigint)?\)", condition)]
    assert len(whole) == (name in FIRST | {"windows"}), "nothing else may be read by the limit alone"


def test_in_postgres_a_plan_that_reads_a_table_is_found_out(database: Connection) -> None:
    database.execute("BEGIN; DROP INDEX forebay_limit_runs_line; DROP INDEX forebay_limit_sessions_due")
    plan = _explained(database, "near_runs")
    database.execute("ROLLBACK")
    assert [line for line in plan if "Sort" in line]


@pytest.mark.parametrize("queries", [sqlite_queries, postgres_queries], ids=["sqlite", "postgres"])
def test_each_statement_says_what_it_is_asked_and_answers(queries: ModuleType) -> None:
    folder = resources.files(queries.__package__ or "")
    for file in (each for each in folder.iterdir() if each.name.endswith(".sql")):
        header = [line for line in file.read_text("utf-8").splitlines() if line.startswith("--")]
        assert any("Arguments:" in line for line in header), file.name
