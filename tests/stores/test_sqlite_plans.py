"""The hot statements of the SQLite ledger seek; none of them scans or sorts what waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from forebay.stores.sqlite import schema
from forebay.stores.sqlite.connection import connect
from forebay.stores.sqlite.queries import QUERIES

OWN = ("SCAN found", "SCAN (subquery")  # what the statement itself makes: a short list of lanes, a bounded count
LINE = "kind=? AND lane=? AND priority=?"
PLANS: dict[str, list[str]] = {
    "ready": ["SEARCH tasks USING INDEX tasks_ready (kind=? AND lane=?)"],
    "due": ["SEARCH tasks USING INDEX tasks_later (kind=? AND available_at<?)"],
    "next_due": ["SEARCH tasks USING INDEX tasks_later (kind=?)"],
    "mine": [
        "SEARCH tasks USING INDEX tasks_running (session_id=?)",
        "SEARCH payloads USING INTEGER PRIMARY KEY (rowid=?)",
    ],
    "cancel_requested": ["SEARCH tasks USING INDEX tasks_running (session_id=?)"],
    "held": ["SEARCH t USING INDEX sqlite_autoindex_tasks_1 (id=?)"],
    "add_lone": [
        f"SEARCH tasks USING INDEX tasks_flow ({LINE} AND flow=? AND tag>?)",
        f"SEARCH tasks USING COVERING INDEX tasks_ready ({LINE} AND tag>?)",
        "SCAN CONSTANT ROW",
        f"SEARCH tasks USING INDEX tasks_flow ({LINE} AND flow>? AND flow<?)",
        "SEARCH buried USING PRIMARY KEY (id=?)",
        "SCAN CONSTANT ROW",
    ],
    "claim": [
        "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH payloads USING INTEGER PRIMARY KEY (rowid=?)",
    ],
    "end": ["SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)"],
    "promote": ["SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"],
    "heads": ["SEARCH tasks USING COVERING INDEX tasks_ready (kind=? AND lane=? AND priority=? AND tag>?)"],
    "crowds": [
        "SCAN CONSTANT ROW",
        "SEARCH tasks USING INDEX tasks_flow (kind=? AND lane=? AND priority=? AND flow>? AND flow<?)",
        "SEARCH tasks USING INDEX tasks_flow (kind=? AND lane=? AND priority=? AND flow>? AND flow<?)",
    ],
    "tails": ["SEARCH tasks USING INDEX tasks_flow (kind=? AND lane=? AND priority=? AND flow=? AND tag>?)"],
    "lanes": [
        "SCAN pauses",  # few at any time
        "SEARCH tasks USING COVERING INDEX tasks_ready (kind=?)",
        "SEARCH tasks USING COVERING INDEX tasks_ready (kind=? AND lane>?)",
    ],
    "pauses": ["SCAN pauses"],  # few at any time
    "ahead": [
        "SEARCH tasks USING COVERING INDEX tasks_ready (kind=? AND lane=? AND priority>?)",
        f"SEARCH tasks USING COVERING INDEX tasks_ready ({LINE} AND tag>? AND tag<?)",
        f"SEARCH tasks USING COVERING INDEX tasks_ready ({LINE} AND tag=? AND available_at<?)",
        f"SEARCH tasks USING COVERING INDEX tasks_ready ({LINE} AND tag=? AND available_at=? AND rowid<?)",
    ],
    "ready_in_lane": [
        "SEARCH tasks USING COVERING INDEX tasks_ready (kind=? AND lane=?)",
        "SEARCH tasks USING COVERING INDEX tasks_later_lane (lane=? AND available_at<?)",
    ],
    "news": [
        "SEARCH e USING PRIMARY KEY (job_id=? AND number>? AND number<?)",
        "USE TEMP B-TREE FOR ORDER BY",  # of what is told: nothing, as a rule
    ],
    "lost": ["SCAN t USING INDEX tasks_running", "SEARCH s USING PRIMARY KEY (id=?) LEFT-JOIN"],
    "holes": ["SEARCH tasks USING INDEX tasks_job (job_id=?)"],
    "jobs": ["SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)"],
    "known": [
        "SEARCH t USING INDEX sqlite_autoindex_tasks_1 (id=?)",
        "SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)",
    ],
    "settled_before": [
        "SEARCH t USING COVERING INDEX sqlite_autoindex_tasks_1 (id=?)",
        "SEARCH h USING PRIMARY KEY (task_seq=? AND token=?)",
    ],
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[apsw.Connection]:
    path = tmp_path / "ledger.db"
    connection = connect(path)
    schema.migrate(connection, path)
    yield connection
    connection.close()


def steps(db: apsw.Connection, statement: str) -> list[str]:
    """What SQLite reads or sorts, without the rows that come in as JSON and the frames around it."""
    plan = [
        row[3]
        for each in statement.split(";\n")
        for row in db.execute(f"EXPLAIN QUERY PLAN {each}", defaultdict(lambda: None))
    ]
    return [
        step
        for step in plan
        if step.startswith(("SEARCH", "SCAN", "USE")) and "VIRTUAL" not in step and not step.startswith(OWN)
    ]


@pytest.mark.parametrize("name", PLANS)
def test_a_hot_statement_seeks(db: apsw.Connection, name: str) -> None:
    assert steps(db, QUERIES.text(name)) == PLANS[name]


def test_waiting_tasks_are_counted_by_lane_without_their_rows_and_without_a_sort(db: apsw.Connection) -> None:
    ready, later, running, sort, *_ = steps(db, QUERIES.text("lane_counts"))
    assert ready == "SCAN tasks USING COVERING INDEX tasks_ready"
    assert later == "SCAN tasks USING COVERING INDEX tasks_later_lane"
    # What runs is never more than the workers hold.
    assert (running, sort) == ("SCAN tasks USING INDEX tasks_running", "USE TEMP B-TREE FOR GROUP BY")


def test_a_statement_without_its_index_is_seen_to_scan_and_sort(db: apsw.Connection) -> None:
    db.execute("DROP INDEX tasks_ready; DROP INDEX tasks_flow")
    assert steps(db, QUERIES.text("ready")) == ["SCAN tasks", "USE TEMP B-TREE FOR ORDER BY"]


def test_statements_are_not_planned_anew_for_each_argument(db: apsw.Connection) -> None:
    assert db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1
