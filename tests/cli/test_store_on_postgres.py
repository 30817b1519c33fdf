from __future__ import annotations

from collections.abc import Iterator

import pytest

from forebay.stores.postgres.schema import LEDGER
from tests.cli.ground import Ground
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server


@pytest.fixture
def _on_postgres(here: Ground, postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with fresh_schema(postgres_server) as address:
        monkeypatch.setenv("FOREBAY_LEDGER", address)
        yield


@pytest.mark.usefixtures("_on_postgres")
def test_the_store_commands_and_doctor_know_postgresql(here: Ground) -> None:
    assert f"schema {LEDGER.newest}" in here.ok("store", "init").out
    assert f"schema {LEDGER.newest}" in here.ok("store", "migrate").out
    assert "is sound" in here.ok("store", "check").out
    assert here.ok("store", "prune", "--completed", "0").out == "0 deleted\n"
    assert f"schema {LEDGER.newest}, 0 open tasks" in here.run("doctor").out


@pytest.mark.usefixtures("_on_postgres")
def test_a_backup_is_left_to_pg_dump(here: Ground) -> None:
    here.ok("store", "init")
    answer = here.run("store", "backup", "copy.db")
    assert (answer.code, "pg_dump" in answer.err) == (2, True)
