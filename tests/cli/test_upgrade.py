"""Two real versions on one ledger: this one, and the one before a ledger was migrated only when asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.fresh import fresh_schema
from tests.servers.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
NEW = Path(__file__).resolve().parents[2] / "src"
APP = """
from forebay import Forebay

app = Forebay()

@app.task("add")
async def add(ctx, a, b):
    return a + b
"""


class Version:
    """One version of the program, run in a folder of its own."""

    def __init__(self, sources: Path, folder: Path, address: str) -> None:
        self.folder = folder
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")},
            "PYTHONPATH": str(sources),
            "FOREBAY_HOME": str(folder / "home"),
            "FOREBAY_LEDGER": address,
            "FOREBAY_LEASE_S": "3",
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "forebay", *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )

    def ok(self, *arguments: str) -> str:
        answer = self.run(*arguments)
        assert answer.returncode == 0, answer
        return answer.stdout.strip()

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-m", "forebay", "worker", "myapp:app"]
        with subprocess.Popen(
            command, cwd=self.folder, env=self._environment, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stderr is not None
                while "worker_started" not in process.stderr.readline():
                    assert process.poll() is None
                yield process
            finally:
                process.kill()


def add(version: Version, a: int, b: int, *options: str) -> str:
    return version.ok("submit", "-t", "add", "-i", json.dumps({"a": a, "b": b}), *options)


def versions(folder: Path, old_sources: Path, address: str) -> tuple[Version, Version]:
    (folder / "myapp.py").write_text(APP)
    return Version(old_sources, folder, address), Version(NEW, folder, address)


def test_a_postgresql_ledger_is_upgraded_step_by_step(
    tmp_path: Path, old_sources: Path, postgres_server: Server
) -> None:
    with fresh_schema(postgres_server) as address:
        old, new = versions(tmp_path, old_sources, address)
        old.ok("store", "init")
        done = add(old, 1, 1)
        old.ok("worker", "myapp:app", "--until-idle")
        waiting = add(old, 2, 2)
        for command in (["worker", "myapp:app", "--until-idle"], ["list"], ["submit", "-t", "add"]):
            refused = new.run(*command)
            assert refused.returncode == 5, refused
            assert "forebay store migrate" in refused.stderr
        assert old.ok("get", waiting, "-o", "json")
        new.ok("store", "migrate")
        refused = old.run("worker", "myapp:app", "--until-idle")
        assert refused.returncode == 5, refused
        assert "schema" in refused.stderr
        new.ok("worker", "myapp:app", "--until-idle")
        assert [new.ok("result", each) for each in (done, waiting)] == ["2", "4"]
        assert "is sound" in new.ok("store", "check")


def test_a_worker_that_was_left_running_through_the_migration_loses_nothing(
    tmp_path: Path, old_sources: Path, postgres_server: Server
) -> None:
    with fresh_schema(postgres_server) as address:
        old, new = versions(tmp_path, old_sources, address)
        old.ok("store", "init")
        with old.worker() as process:
            new.ok("store", "migrate")
            tasks = [add(new, n, n, "--wait", "--wait-timeout", "60") for n in range(3)]
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        left = add(new, 5, 5)
        new.ok("worker", "myapp:app", "--until-idle")
        assert [new.ok("result", each) for each in (*tasks, left)] == ["0", "2", "4", "10"]
        assert "is sound" in new.ok("store", "check")


def test_a_sqlite_ledger_is_upgraded_by_the_first_worker_of_the_new_version(tmp_path: Path, old_sources: Path) -> None:
    old, new = versions(tmp_path, old_sources, f"sqlite:///{tmp_path / 'forebay.db'}")
    task = add(old, 1, 2)
    refused = new.run("list")
    assert (refused.returncode, "forebay store migrate" in refused.stderr) == (5, True)
    new.ok("worker", "myapp:app", "--until-idle")
    assert new.ok("result", task) == "3"
    assert old.run("list").returncode == 5
    assert "is sound" in new.ok("store", "check")
