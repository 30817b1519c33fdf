"""A check of a PostgreSQL ledger finds lines and claims that are not those of the tasks."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from forebay.clock import SystemClock
from forebay.stores.postgres.ledger import PostgresLedger
from forebay.testing.workers import Worker, lone
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server


@pytest.fixture
def address(postgres_server: Server) -> Iterator[str]:
    with fresh_schema(postgres_server) as address:
        yield address


@pytest.mark.parametrize(
    ("damage", "said"),
    {
        "SELECT 1": [],
        "DELETE FROM forebay_ready": ["waits, but stands in no line"],
        "UPDATE forebay_tasks SET status = 'canceled' WHERE seq IN (SELECT seq FROM forebay_ready)": [
            "stands in line, but no such task waits",
            "is canceled, but its error class is missing",
        ],
        "UPDATE forebay_tasks SET tags = '[\"red\"]' WHERE seq IN (SELECT seq FROM forebay_ready)": [
            "is not listed under its tag red"
        ],
        "INSERT INTO forebay_ready SELECT seq, kind, lane, priority, tag, available_at, flow, job_id, role"
        " FROM forebay_tasks WHERE seq IN (SELECT seq FROM forebay_running)": [
            "stands in line, but no such task waits"
        ],
        "UPDATE forebay_tasks SET status = 'completed' WHERE seq IN (SELECT seq FROM forebay_running)": [
            "is claimed, but no such task is open"
        ],
    }.items(),
)
def test_what_is_not_as_the_tasks_say_is_found(address: str, damage: str, said: list[str]) -> None:
    with PostgresLedger(address) as ledger:
        ledger.submit([lone(n) for n in range(2)])
        assert len(Worker(ledger, SystemClock(), lease_s=60.0).claim(1)) == 1
        with psycopg.connect(address, autocommit=True) as db:
            db.execute(damage.encode())
        found = ledger.check()
    assert len(found) == len(said)
    assert all(part in text for part, text in zip(said, found, strict=True))
