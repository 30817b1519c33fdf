"""Random steps find no difference between a ledger and its model."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.stores.memory.ledger import MemoryLedger
from forebay.testing.machine import ledger_machine
from tests.property.machines import FUZZ, objects_machine, postgres_machine, run, short_and_long, sqlite_machine
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server

# A failure is made small before it is told, which takes minutes; a run that passes takes seconds.
pytestmark = pytest.mark.timeout(0 if FUZZ else 600)


@pytest.mark.slow
@short_and_long
def test_the_memory_ledger_does_what_the_model_says(share: float) -> None:
    run(ledger_machine(MemoryLedger), examples=share * 100)


@pytest.mark.slow
@short_and_long
def test_the_sqlite_ledger_does_what_the_model_says(tmp_path: Path, share: float) -> None:
    run(sqlite_machine(tmp_path), examples=share * 20)


@pytest.mark.slow
@short_and_long
def test_the_postgres_ledger_does_what_the_model_says(postgres_server: Server, share: float) -> None:
    with fresh_schema(postgres_server) as address:
        run(postgres_machine(address), examples=share * 8)


@pytest.mark.slow
@short_and_long
def test_the_objects_ledger_does_what_the_model_says(share: float) -> None:
    run(objects_machine(), examples=share * 6)
