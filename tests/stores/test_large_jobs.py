"""A job of any size is stored in one transaction, on a connection that is never silent for long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from forebay.clock import SystemClock
from forebay.errors import StoreBusy, StoreError
from forebay.model.job import Job, NewJob
from forebay.model.task import NewTask, Status, Task
from forebay.rules import unit as units
from forebay.stores.base import Ledger
from forebay.stores.postgres import driver
from forebay.stores.postgres import ledger as postgres
from forebay.stores.postgres.connection import Link
from forebay.stores.postgres.ledger import PostgresLedger
from forebay.stores.sql import lines
from forebay.stores.sql.statement import Steps
from forebay.stores.sql.transaction import Transaction
from forebay.stores.sqlite.ledger import SqliteLedger
from forebay.testing.workers import Worker, chunk, job_of, split_job
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server

CHUNKS = 3500
Bring = Callable[[Ledger], NewJob]


@pytest.fixture
def address(postgres_server: Server) -> Iterator[str]:
    with fresh_schema(postgres_server) as address:
        yield address


@contextmanager
def opened(name: str, folder: Path, address: str) -> Iterator[Ledger]:
    made = SqliteLedger(folder / "ledger.db") if name == "sqlite" else PostgresLedger(address)
    with made as ledger:
        yield ledger


@pytest.fixture
def made_at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tasks were made before each word to the server."""
    counts = [0]
    make, send = units.new_task, driver.Driver._send

    def counting(new: NewTask, job: Job | None, now: float) -> Task:
        counts[-1] += 1
        return make(new, job, now)

    def sending(self: driver.Driver, messages: list[driver.Message]) -> list[list[Any]]:
        counts.append(0)
        return send(self, messages)

    monkeypatch.setattr(units, "new_task", counting)
    monkeypatch.setattr(driver.Driver, "_send", sending)
    return counts


def submit(ledger: Ledger) -> NewJob:
    job = job_of(CHUNKS)
    ledger.submit([job])
    return job


def split(ledger: Ledger) -> NewJob:
    job = split_job()
    ledger.submit([job])
    worker = Worker(ledger, SystemClock())
    worker.complete(worker.take("split"), follow_ups=[chunk(n) for n in range(CHUNKS)])
    return job


@pytest.mark.parametrize("bring", [submit, split])
def test_a_server_hears_from_whoever_brings_many_chunks(address: str, made_at_once: list[int], bring: Bring) -> None:
    with PostgresLedger(address) as ledger:
        job = ledger.get_job(bring(ledger).id)
        assert job is not None
        assert job.chunk_count == job.open_count == CHUNKS
        assert ledger.count()["work", Status.PENDING] == CHUNKS
    assert sum(made_at_once) >= CHUNKS
    assert max(made_at_once) <= 2 * lines._PART_TASKS


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
@pytest.mark.parametrize("bring", [submit, split])
def test_a_job_that_cannot_be_stored_whole_is_not_stored_at_all(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch, name: str, bring: Bring
) -> None:
    parts = 0
    write = lines._write

    def failing(tx: Transaction, added: list[tuple[Any, ...]], payloads: list[str | None], now: float) -> None:
        nonlocal parts
        parts += 1
        if parts == 1 + CHUNKS // lines._PART_TASKS:
            raise StoreError("The last part is lost.", remedy="None.")
        write(tx, added, payloads, now)

    with opened(name, tmp_path, address) as ledger:
        monkeypatch.setattr(lines, "_write", failing)
        with pytest.raises(StoreError, match="last part"):
            bring(ledger)
        monkeypatch.setattr(lines, "_write", write)
        assert ("work", Status.PENDING) not in ledger.count()
        assert sum(ledger.count().values()) == (0 if bring is submit else 1)


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_the_chunks_of_a_job_are_as_old_as_each_other(tmp_path: Path, address: str, name: str) -> None:
    with opened(name, tmp_path, address) as ledger:
        job = submit(ledger)
        found = ledger.get_many([task.id for task in job.tasks[:: CHUNKS - 1]])
        assert len({(task.created_at, task.available_at) for task in found}) == 1
        assert [task.tag for task in found] == [1, CHUNKS]


def slow(tx: Transaction) -> Steps[Sequence[Any]]:
    yield from tx.one("environment")
    time.sleep(0.6)
    return (yield from tx.one("environment"))


@pytest.mark.parametrize("missed", [0, 1], ids=["heard before it asks", "heard while it asks"])
def test_a_transaction_that_the_server_ended_is_named(
    address: str, monkeypatch: pytest.MonkeyPatch, missed: int
) -> None:
    """It is known, too, that nothing was changed."""
    monkeypatch.setitem(postgres.SETTINGS, "idle_in_transaction_session_timeout", "200ms")
    if missed:
        hear, looks = Link.hear_farewell, iter(range(100))
        monkeypatch.setattr(Link, "hear_farewell", lambda self: hear(self) if next(looks) >= missed else None)
    with PostgresLedger(address) as ledger:
        with pytest.raises(StoreBusy, match="idle-in-transaction timeout") as caught:
            ledger._commit(slow)
        assert "nothing was changed" in caught.value.remedy
        assert ledger.environment() is None
    assert isinstance(caught.value.__cause__, psycopg.Error)
