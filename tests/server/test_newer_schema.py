"""A running server, and a command that waits, notice that a newer version has migrated their ledger."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.app.forebay import Forebay
from forebay.errors import SchemaTooNew
from forebay.observe import subscribe
from tests.engine.test_newer_schema import migrate_further
from tests.limits.ground import until
from tests.server.ground import DOCUMENT, PDF, problem, serving
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server


@pytest.fixture(params=["sqlite", "postgresql"])
def migrated(tmp_path: Path, postgres_server: Server, request: pytest.FixtureRequest) -> Iterator[tuple[Forebay, str]]:
    with fresh_schema(postgres_server) as found:
        address = found if request.param == "postgresql" else f"sqlite:///{tmp_path / 'ledger.db'}"
        with Forebay(address, blobs=f"file://{tmp_path / 'blobs'}") as app:
            yield app, address


def test_a_server_refuses_what_needs_a_ledger_that_was_migrated(migrated: tuple[Forebay, str]) -> None:
    app, address = migrated
    told: list[object] = []
    stop = subscribe(lambda name, fields: told.append(fields["schema"]) if name == "schema_newer" else None)
    try:
        with serving(app, schema_every_s=0.05) as service:
            assert service.get("/readyz").status_code == 200
            assert service.get("/v1/jobs").status_code == 200
            migrate_further(address)
            until(lambda: service.get("/v1/jobs").status_code == 503, within_s=20)
            for answer in (service.get("/v1/jobs"), service.post("/v1/jobs", content=DOCUMENT, headers=PDF)):
                refused = problem(answer, 503, "schema_too_new")
                assert "server of the newer version" in refused["remedy"]
                assert answer.headers["retry-after"]
            assert problem(service.get("/readyz"), 503, "not_ready")["checks"] == {"ledger": "schema_too_new"}
            assert service.get("/livez").status_code == 200
            assert service.get("/metrics").status_code == 200
    finally:
        stop()
    assert told == [99]


def test_whoever_waits_for_a_task_is_told_that_the_ledger_was_migrated(migrated: tuple[Forebay, str]) -> None:
    app, address = migrated
    task = app.submit("nobody_runs_this")
    migrate_further(address)
    with pytest.raises(SchemaTooNew, match="schema 99"):
        app.wait(task.id, timeout_s=20)


@pytest.mark.slow
def test_a_watching_run_ends_when_a_newer_version_migrates_its_ledger(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "scan.pdf").write_bytes(DOCUMENT)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
    environment = kept | {"FOREBAY_HOME": str(tmp_path / "home"), "FOREBAY_LEASE_S": "1"}
    command = [sys.executable, "-m", "forebay", "run", "in", "--watch", "--out", "out"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: (tmp_path / "out").exists() and any((tmp_path / "out").rglob("*.md")), within_s=60)
            migrate_further(f"sqlite:///{tmp_path / 'home' / 'forebay.db'}")
            _, complaint = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
    assert process.returncode == SchemaTooNew.exit_code, complaint
    assert "schema 99" in complaint
