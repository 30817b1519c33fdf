"""The hot statements of the PostgreSQL ledger seek, be the tables empty or full when their plans are made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from forebay.model.task import NewTask
from forebay.stores.postgres.binding import bound
from forebay.stores.postgres.ledger import SETTINGS, PostgresLedger
from forebay.stores.postgres.lists import choose_list
from forebay.stores.sql.statement import Statement
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server

Connection = psycopg.Connection[tuple[Any, ...]]
INDEXES: dict[str, list[str]] = {
    "session": ["sessions_pkey"],
    "held": ["tasks_id_key", "running_pkey"],
    "next_due": ["tasks_later"],
    "ready": ["ready_line"],
    "lanes": ["ready_line"],  # the seek for the next one is not shown
    "due": ["tasks_later"],
    "heads": ["ready_line"],
    "tails": ["ready_flow"],
    "crowds": ["ready_flow"],  # the same
    "add_lone": ["ready_flow", "ready_line", "buried_pkey"],  # the seek for the next flow is not shown
    "claim": ["ready_pkey", "tasks_pkey"],
    "take": ["ready_line", "tasks_pkey"],
    "got": ["running_pkey"],
    "turn": ["sessions_pkey"],
    "finish": ["tasks_pkey", "running_pkey", "running_pkey", "sessions_pkey"],
    "end": ["tasks_pkey", "running_pkey", "running_pkey"],
    "promote": ["tasks_pkey"],
    "renew": ["sessions_pkey"],
    "renew_exchange": ["sessions_pkey"],
    "hold": ["sessions_pkey", "tasks_id_key", "running_pkey"],
    "mine": ["running_session", "tasks_pkey", "running_pkey"],
    "cancel_requested": ["running_session", "tasks_pkey"],
    "settled_before": ["tasks_id_key", "history_pkey"],
    "holes": ["tasks_of_job"],
    "job": ["jobs_id_key"],
    "jobs": ["jobs_id_key"],
    "idle_jobs": ["jobs_id_key"],
    "put_jobs": ["jobs_id_key"],
    "put_tasks": ["tasks_id_key", "ready_pkey"],
    "known": ["tasks_id_key", "jobs_id_key"],
    "task": ["tasks_id_key", "tasks_pkey", "running_pkey", "sessions_pkey"],
    "place": ["tasks_id_key", "tasks_pkey", "running_pkey"],
    "lone_tasks": ["tasks_id_key", "tasks_pkey", "running_pkey"],
    "lock_lone": ["tasks_id_key", "ready_pkey"],
    "history": ["history_pkey", "tasks_id_key"],
    "news": ["events_pkey"],
}
# What a list asks for, and the index that it is read from; how far it is read is seen in test_postgres_lists.
LISTS: list[tuple[dict[str, object], str]] = [
    ({}, "tasks_pkey"),
    ({"status": "failed"}, "tasks_dead"),
    ({"status": "failed", "kind": "work", "tenant": "acme"}, "tasks_dead_tenant"),
    ({"status": "failed", "kind": "work", "tenant": "acme", "tag": "red"}, "task_tags_pkey"),
    ({"status": "canceled"}, "tasks_dead"),
    ({"status": "completed"}, "history_pkey"),
    ({"status": "pending"}, "tasks_delayed"),
    ({"kind": "work"}, "tasks_kind"),
    ({"tenant": "acme"}, "tasks_tenant"),
    ({"tenant": "acme", "status": "completed"}, "tasks_tenant"),
    ({"role": "merge"}, "tasks_kind"),
    ({"tag": "red"}, "task_tags_pkey"),
    ({"tag": "red", "status": "pending"}, "task_tags_pkey"),
    ({"job_id": "a" * 26}, "tasks_of_job"),
    ({"job_id": "a" * 26, "status": "pending"}, "tasks_of_job"),
    ({"job_id": "a" * 26, "status": "completed"}, "tasks_of_job"),
]
JOB_LISTS: list[tuple[dict[str, object], str]] = [
    ({}, "jobs_pkey"),
    ({"status": "failed"}, "jobs_status"),
    ({"kind": "ocr"}, "jobs_pipeline"),
    ({"tenant": "acme"}, "jobs_tenant"),
    ({"tag": "red"}, "job_tags_pkey"),
]
# The index has the order: nothing is read to be sorted.
SORTED = {"ready", "take", "add_lone", "due", "heads", "tails", "next_due", "news"}


@pytest.fixture(scope="module", params=["empty", "full"])
def db(postgres_server: Server, request: pytest.FixtureRequest) -> Iterator[Connection]:
    with fresh_schema(postgres_server) as address, PostgresLedger(address) as ledger:
        ledger.sessions()
        if request.param == "full":
            ledger.submit([NewTask(kind="work", payload=n, delay_s=n % 2) for n in range(4000)])
        with psycopg.connect(address, autocommit=True) as db:
            db.execute("ANALYZE")
            for name, value in SETTINGS.items():
                db.execute(f"SET {name} = '{value}'".encode())
            yield db


def plan(db: Connection, name: str) -> list[str]:
    return [row[0] for row in db.execute(b"EXPLAIN (GENERIC_PLAN) " + bound(name).text)]


def indexes(lines: list[str]) -> list[str]:
    found = re.findall(r"Scan(?: Backward)? (?:using|on) forebay_(\w+_\w+)", "\n".join(lines))
    return [name for name in found if not name.startswith("pauses")]


@pytest.mark.parametrize("name", INDEXES)
def test_a_hot_statement_seeks(db: Connection, name: str) -> None:
    lines = plan(db, name)
    assert indexes(lines) == INDEXES[name]
    assert [line for line in lines if "Seq Scan" in line] == []
    sought = ["Index Cond" in line and "forebay_pauses" not in before for before, line in pairwise(lines)]
    assert sum(sought) == len(INDEXES[name])
    if name in SORTED:
        assert [line for line in lines if "Sort" in line] == []


def test_a_statement_without_its_index_is_seen_to_scan_or_sort(db: Connection) -> None:
    with db.transaction(force_rollback=True):
        db.execute("DROP INDEX forebay_ready_line, forebay_ready_flow")
        lines = plan(db, "ready")
        assert indexes(lines) != INDEXES["ready"]
        assert any("Sort" in line for line in lines)


@pytest.mark.parametrize("after", [None, 1000], ids=["first page", "next page"])
@pytest.mark.parametrize(
    ("name", "asked", "index"),
    [
        *(("list_tasks_of_job" if "job_id" in asked else "list_tasks", asked, index) for asked, index in LISTS),
        *(("list_jobs", asked, index) for asked, index in JOB_LISTS),
    ],
    ids=str,
)
def test_a_list_is_read_from_the_index_of_its_filter(
    db: Connection, name: str, asked: dict[str, object], index: str, after: int | None
) -> None:
    """Nothing but a page is sorted: the index has the order."""
    chosen = choose_list(Statement(name, {**asked, "after": after, "most": 51}))
    given = frozenset(key for key, value in chosen.arguments.items() if value is not None)
    lines = [row[0] for row in db.execute(b"EXPLAIN (GENERIC_PLAN) " + bound(chosen.name, given).text)]
    assert index in indexes(lines)
    assert [line for line in lines if "Seq Scan" in line] == []
    # Others sort what they found.
    if chosen.name in {"list_tasks", "list_tasks_of_job", "list_jobs", "list_tagged_jobs"}:
        assert [line for line in lines if "Sort" in line] == []


@pytest.mark.parametrize("status", ["pending", "running"])
def test_open_tasks_of_a_job_are_found_without_reading_its_other_tasks_whole(db: Connection, status: str) -> None:
    asked: dict[str, object] = {"job_id": "a" * 26, "status": status, "most": 51}
    chosen = choose_list(Statement("list_tasks_of_job", asked))
    lines = [
        row[0] for row in db.execute(b"EXPLAIN (GENERIC_PLAN, VERBOSE) " + bound(chosen.name, frozenset(asked)).text)
    ]
    page = next(number for number, line in enumerate(lines) if "Limit" in line)
    assert lines[page + 1].split("Output: ")[1].count(",") < 10
    assert ("tasks_of_job" in indexes(lines)) == (status == "pending")


CHANGED_BY_AN_ORDINARY_END = {
    "status",
    "wait_reason",
    "tag",
    "retry_count",
    "reschedule_count",
    "lost_count",
    "claim_count",
    "attempt_count",
    "session_id",
    "exchange_n",
    "claimed_at",
    "attempt_deadline_at",
    "finished_at",
    "result",
}
FOLLOWING = """
SELECT pg_get_indexdef(indexrelid)
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
WHERE indrelid = 'forebay_tasks'::regclass AND amname <> 'brin'
"""


def indexes_that_follow_an_end(db: Connection) -> list[str]:
    """They would be written with every end, and so would all the others; a BRIN is not in the way."""
    definitions = [row[0].partition(" USING ")[2] for row in db.execute(FOLLOWING)]
    assert len(definitions) > 3
    return [each for each in definitions if CHANGED_BY_AN_ORDINARY_END & set(re.findall(r"\w+", each))]


def test_no_index_follows_an_ordinary_end(db: Connection) -> None:
    assert indexes_that_follow_an_end(db) == []


def test_an_index_that_follows_is_seen(db: Connection) -> None:
    with db.transaction(force_rollback=True):
        db.execute("CREATE INDEX ON forebay_tasks (seq) WHERE status = 'failed'")
        assert len(indexes_that_follow_an_end(db)) == 1


@pytest.mark.slow
def test_a_claim_reads_as_many_pages_with_many_tasks_waiting_as_with_few(postgres_server: Server) -> None:
    """Counted, not timed: a tree of a million is one page deeper."""
    pages = []
    for count in (1_000, 30_000):
        with fresh_schema(postgres_server) as address, PostgresLedger(address) as ledger:
            ledger.submit([NewTask(kind="work") for _ in range(count)])
            with psycopg.connect(address, autocommit=True) as db:
                for name, value in SETTINGS.items():
                    db.execute(f"SET {name} = '{value}'".encode())
                text = bound("ready").text.decode()
                for at, value in enumerate(("'work'", "'work'", "50"), 1):
                    text = text.replace(f"${at}", value)
                lines = [row[0] for row in db.execute(f"EXPLAIN (ANALYZE, BUFFERS) {text}".encode())]
                (read,) = re.findall(r"Buffers: (.*)", next(line for line in lines if "Buffers" in line))
                pages.append(sum(map(int, re.findall(r"(?:hit|read)=(\d+)", read))))
    # For each of the 50 rows one page of the table at most, wherever it lies, and the way down the index.
    assert max(pages) <= 50 + 6
