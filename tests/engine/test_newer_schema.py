"""A running worker notices that a newer version has migrated its ledger, finishes what runs, and ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from forebay.errors import SchemaTooNew
from forebay.model.query import Query
from forebay.observe import subscribe
from forebay.stores.sqlite.connection import connect
from tests.engine.ground import Ground, run
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server


@pytest.fixture(params=["sqlite", "postgresql"])
def address(
    tmp_path: Path, postgres_server: Server, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    with fresh_schema(postgres_server) as found:
        address = found if request.param == "postgresql" else f"sqlite:///{tmp_path / 'ledger.db'}"
        request.getfixturevalue("ground")
        monkeypatch.setenv("TEST_LEDGER", address)
        yield address


def migrate_further(address: str) -> None:
    """Do what a version of the future would do."""
    if address.startswith("sqlite"):
        db = connect(Path(address.removeprefix("sqlite:///")))
        db.execute("PRAGMA user_version = 99")
        db.close()
        return
    with psycopg.connect(address, autocommit=True) as server:
        server.execute("COMMENT ON TABLE forebay_tasks IS 'Forebay ledger, schema 99'")


@pytest.mark.slow
def test_a_worker_drains_when_a_newer_version_migrates_its_ledger(address: str, ground: Callable[..., Ground]) -> None:
    here = ground(lease_s=1.0, drain_grace_s=20.0)
    told: list[dict[str, object]] = []
    stop = subscribe(lambda name, fields: told.append(dict(fields)) if name == "schema_newer" else None)
    running = here.app.submit("sleeps", {"seconds": 2.5}).id

    async def scenario() -> None:
        async with here.worker() as worker:
            await here.started(running)
            migrate_further(address)
            await here.until(lambda: worker._drains)
            here.app.submit("echo")

    try:
        with pytest.raises(SchemaTooNew, match="schema 99"):
            run(scenario)
    finally:
        stop()
    assert here.task(running).status == "completed"
    assert [task.status for task in here.app.ledger.list_tasks(Query(kind="echo")).items] == ["pending"]
    assert [each["schema"] for each in told] == [99]
