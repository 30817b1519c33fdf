"""A list on PostgreSQL reads about a page, whatever it filters on and however many tasks do not match."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import psycopg
import pytest
from psycopg import sql

from forebay.clock import SystemClock
from forebay.model.bulk import Bulk
from forebay.model.outcome import Failed
from forebay.model.payload import JsonText
from forebay.model.query import Query
from forebay.model.task import Role, Status, Task
from forebay.stores.postgres import lists
from forebay.stores.postgres.binding import bound
from forebay.stores.postgres.ledger import SETTINGS, PostgresLedger
from forebay.stores.sql.statement import Statement
from forebay.testing.invariants import all_tasks
from forebay.testing.workers import Worker, action, job_of, lone
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server

Connection = psycopg.Connection[tuple[Any, ...]]
CROWD = 20_000
LOOKED_AT = 40
MOST = 11
STATUSES = (None, *Status)
# Of what a crowd of alike tasks has, and of what none has.
FILTERS: dict[str, tuple[str | None, ...]] = {
    "status": STATUSES,
    "kind": (None, "work", "none"),
    "tenant": (None, "default", "nobody"),
    "role": (None, "lone", "merge"),
    "tag": (None, "red"),
}
ENDED = """
DELETE FROM forebay_ready;
UPDATE forebay_tasks SET status = {status}, tag = NULL, claim_count = 1, finished_at = 1,
       error_class = CASE {status} WHEN 'failed' THEN 'invalid_pdf' WHEN 'canceled' THEN 'canceled' END;
INSERT INTO forebay_history
SELECT seq, 1, 1, 's', 'w', 1, 1, {status}, {status}, 0, 0, true FROM forebay_tasks
"""


def crowd(db: Connection, ledger: PostgresLedger, status: str) -> None:
    ledger.submit(Bulk(lone(), [JsonText("1")] * CROWD))
    db.execute("INSERT INTO forebay_task_tags SELECT 'red', seq FROM forebay_tasks")
    if status != Status.PENDING:
        db.execute(sql.SQL(ENDED).format(status=sql.Literal(status)))
        db.execute("VACUUM ANALYZE")


@pytest.fixture(scope="module", params=[Status.PENDING, Status.COMPLETED, Status.FAILED, Status.CANCELED])
def db(postgres_server: Server, request: pytest.FixtureRequest) -> Iterator[Connection]:
    with (
        fresh_schema(postgres_server) as address,
        PostgresLedger(address) as ledger,
        psycopg.connect(address, autocommit=True) as db,
    ):
        crowd(db, ledger, request.param)
        for name, value in SETTINGS.items():
            db.execute(f"SET {name} = '{value}'".encode())
        yield db


def cost(db: Connection, asked: dict[str, str | None], after: int | None = None) -> tuple[int, int, int]:
    """How many rows of tables and how many pages a list reads, and how many rows it finds."""
    arguments: dict[str, object] = {**asked, "after": after, "most": MOST}
    statement = "list_running" if asked.get("status") == Status.RUNNING else "list_tasks"
    chosen = lists.choose_list(Statement(statement, arguments))
    given = frozenset(key for key, value in chosen.arguments.items() if value is not None)
    known = bound(chosen.name, given)
    values = [sql.Literal(None if value is None else value.decode()) for value in known.values(chosen.arguments)]
    called = sql.SQL("({})").format(sql.SQL(", ").join(values)) if values else sql.SQL("")
    db.execute(b"PREPARE asked AS " + known.text)
    explain = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE asked {}").format(called)
    ((found,),) = db.execute(explain).fetchall()
    db.execute("DEALLOCATE asked")
    plan = found[0]["Plan"]
    return rows_read(plan), plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], int(plan["Actual Rows"])


def rows_read(node: dict[str, Any]) -> int:
    own = 0
    if "Relation Name" in node:
        removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
        own = round((node["Actual Rows"] + removed) * node["Actual Loops"])
    return own + sum(map(rows_read, node.get("Plans", ())))


def too_dear(db: Connection) -> Iterator[tuple[object, ...]]:
    for values in product(*FILTERS.values()):
        asked = {name: value for name, value in zip(FILTERS, values, strict=True) if value is not None}
        for after in (None,) if "role" in asked else (None, CROWD // 2):
            rows, pages, found = cost(db, dict(asked), after)
            bounded = Status(asked["status"]) in {Status.PENDING, Status.COMPLETED} if "status" in asked else False
            looks = 2 * LOOKED_AT if (bounded or "tag" in asked) else 0
            # Of each row that is found or looked at a few pages; of an index the way down to it, for a few seeks.
            if rows > 8 * (looks + MOST) or pages > 60 + 10 * (looks + found):
                yield (asked, after, rows, pages, found)


@pytest.fixture
def _short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "LOOKED_AT", LOOKED_AT, raising=False)


@pytest.mark.usefixtures("_short_looks")
def test_no_combination_of_filters_reads_what_does_not_match(db: Connection) -> None:
    assert list(too_dear(db)) == []


@pytest.mark.usefixtures("_short_looks")
def test_a_walk_to_the_end_is_seen(db: Connection) -> None:
    with db.transaction(force_rollback=True):
        db.execute("DROP INDEX forebay_tasks_kind, forebay_tasks_tenant, forebay_tasks_dead, forebay_tasks_dead_tenant")
        assert next(too_dear(db), None) is not None


def draw_tasks(ledger: PostgresLedger, draw: random.Random) -> None:
    """Some of every kind, tenant, role, tag and status."""
    worker = Worker(ledger, SystemClock())
    for _ in range(12):
        kind, tenant = draw.choice(("work", "word")), draw.choice(("acme", "blue"))
        tags = draw.choice(((), ("red",), ("red", "green")))
        options: dict[str, Any] = {"kind": kind, "tenant": tenant, "tags": tags, "max_retries": draw.choice((0, 3))}
        ledger.submit([lone(**options) for _ in range(8)])
        ledger.submit([lone(**options, delay_s=draw.choice((1000, 2000))) for _ in range(2)])
        ledger.submit([job_of(3, tenant=tenant)])
        for task in worker.claim(draw.randrange(12), kind):
            match draw.randrange(5):
                case 0:
                    worker.fail(task)
                case 1:
                    worker.settle(task, Failed(error_class="invalid_pdf", text="no"))
                case 2:
                    worker.reschedule(task, 500.0)
                case 3:
                    worker.complete(task)
                case _:
                    pass
        waiting = ledger.list_tasks(Query(status=Status.PENDING, kind=kind)).items
        ledger.cancel([task.id for task in waiting[:3] if task.role is Role.LONE], action())


def matches(task: Task, asked: dict[str, Any]) -> bool:
    return all(
        value in task.tags if name == "tag" else getattr(task, name) == value
        for name, value in asked.items()
        if value is not None
    )


@pytest.mark.parametrize("looked_at", [5, 1000])
def test_the_pages_of_a_list_have_all_that_matches_once(
    postgres_server: Server, monkeypatch: pytest.MonkeyPatch, looked_at: int
) -> None:
    monkeypatch.setattr(lists, "LOOKED_AT", looked_at)
    short = 0
    with fresh_schema(postgres_server) as address, PostgresLedger(address) as ledger:
        draw_tasks(ledger, random.Random(3))
        every = {task.id: task for task in all_tasks(ledger)}
        assert {task.status for task in every.values()} == set(Status)
        for status, kind, tenant, role, tag in product(
            STATUSES, (None, "work", "merge"), (None, "acme"), (None, Role.CHUNK, Role.LONE), (None, "red")
        ):
            asked = {"status": status, "kind": kind, "tenant": tenant, "role": role, "tag": tag}
            found: list[str] = []
            after: str | None = None
            while True:
                page = ledger.list_tasks(Query(**asked, after=after, size=4))
                found += [task.id for task in page.items]
                after = page.next
                if after is None:
                    break
                short += len(page.items) < 4
            assert len(found) == len(set(found))
            assert set(found) == {task.id for task in every.values() if matches(task, asked)}, asked
    assert (short > 0) == (looked_at == 5)
