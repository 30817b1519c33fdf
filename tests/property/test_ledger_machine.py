"""Random steps find no difference between a ledger and its model."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.stores.memory.ledger import MemoryLedger
from forebay.testing.machine import ledger_machine
from tests.property.machines import FUZZ, objects_machine, postgres_machine, run, sqlite_machine
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server

# A failure is made small before it is told, which takes minutes; a run that passes takes seconds.
pytestmark = pytest.mark.timeout(0 if FUZZ else 600)


def test_the_memory_ledger_does_what_the_model_says() -> None:
    run(ledger_machine(MemoryLedger), examples=100)


def test_the_sqlite_ledger_does_what_the_model_says(tmp_path: Path) -> None:
    run(sqlite_machine(tmp_path), examples=20)


def test_the_postgres_ledger_does_what_the_model_says(postgres_server: Server) -> None:
    with fresh_schema(postgres_server) as address:
        run(postgres_machine(address), examples=8)


def test_the_objects_ledger_does_what_the_model_says() -> None:
    run(objects_machine(), examples=6)
