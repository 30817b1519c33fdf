"""The command itself, as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from forebay.app.forebay import Forebay
from forebay.app.keys import create
from forebay.errors import SchemaTooNew
from tests.engine.test_newer_schema import migrate_further
from tests.server.ground import DOCUMENT, PDF


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
    return kept | {"FOREBAY_HOME": str(home), "FOREBAY_DRAIN_GRACE_S": "10", "FOREBAY_LEASE_S": "2"}


@contextmanager
def served(home: Path, *options: str) -> Iterator[tuple[httpx2.Client, subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "forebay", "serve", "--port", "0", "-o", "ndjson", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(home)) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            with httpx2.Client(base_url=json.loads(line)["address"], timeout=20, trust_env=False) as client:
                yield client, process
        finally:
            if process.poll() is None:
                process.kill()


def ended(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(60)


def test_one_command_serves_and_works(tmp_path: Path) -> None:
    with served(tmp_path) as (client, process):
        answer = client.post("/v1/jobs", content=DOCUMENT, headers=PDF | {"prefer": "wait=20"})
        assert (answer.status_code, answer.json()["status"]) == (201, "completed")
        assert "Page 1" in client.get(f"{answer.headers['location']}/result", params={"format": "md"}).text
        assert "forebay_tasks_settled_total" in client.get("/metrics").text
        (worker,) = client.get("/v1/workers").json()["items"]
        assert "ocr.local" in worker["kinds"]
        assert ended(process) == 0


@pytest.mark.parametrize(("options", "switch_s"), [([], 0.001), (["--no-worker"], sys.getswitchinterval())])
def test_a_server_sets_up_the_interpreter_of_its_own_process(
    tmp_path: Path, options: list[str], switch_s: float
) -> None:
    target = Path(__file__).parents[1] / "cli" / "interpreter_app.py"
    with served(tmp_path, f"{target}:app", *options) as (client, process):
        assert client.get("/livez").status_code == 200
        assert ended(process) == 0
    noted = json.loads((tmp_path / f"interpreter-{process.pid}.json").read_text())
    assert noted == {"threshold": 20_000, "switch_s": pytest.approx(switch_s), "frozen": True, "garbage": False}


@pytest.mark.slow
def test_without_a_worker_nothing_runs(tmp_path: Path) -> None:
    with served(tmp_path, "--no-worker") as (client, process):
        job_id = client.post("/v1/jobs", content=DOCUMENT, headers=PDF).json()["id"]
        assert client.get("/v1/workers").json()["items"] == []
        assert client.get(f"/v1/jobs/{job_id}").json()["status"] == "pending"
        assert ended(process) == 0


@pytest.mark.slow
def test_a_drained_worker_leaves_the_server_to_go_on(tmp_path: Path) -> None:
    with served(tmp_path) as (client, process):
        (worker,) = client.get("/v1/workers").json()["items"]
        assert client.post(f"/v1/workers/{worker['id']}/drain", json={"note": "upgrade"}).status_code == 202
        ends_at = time.monotonic() + 20
        while client.get("/v1/workers").json()["items"] and time.monotonic() < ends_at:
            time.sleep(0.1)
        assert client.get("/v1/workers").json()["items"] == []
        assert client.get("/v1/jobs").status_code == 200
        while client.get("/readyz").json()["status"] == "ok" and time.monotonic() < ends_at:
            time.sleep(0.1)
        assert "drained" in client.get("/readyz").json()["warnings"]["worker"]
        assert ended(process) == 0


@pytest.mark.slow
def test_a_worker_that_fails_leaves_a_line_in_the_log_and_ends_the_server(tmp_path: Path) -> None:
    with served(tmp_path) as (_, process):
        migrate_further(f"sqlite:///{tmp_path / 'forebay.db'}")
        _, log = process.communicate(timeout=60)
    assert process.returncode == SchemaTooNew.exit_code
    lines = [json.loads(line) for line in log.splitlines() if line.startswith(b"{")]
    (failed,) = [line for line in lines if line["event"] == "worker_failed"]
    assert failed["error_code"] == "schema_too_new"
    assert "schema 99" in failed["text"]


@pytest.mark.slow
def test_a_worker_of_an_application_reads_documents_as_its_server_does(tmp_path: Path) -> None:
    target = tmp_path / "own.py"
    target.write_text(
        "from forebay import Forebay\napp = Forebay()\n@app.task('mine')\nasync def mine(ctx):\n    return 1\n"
    )
    with served(tmp_path, f"{target}:app", "--no-worker") as (client, process):
        job_id = client.post("/v1/jobs", content=DOCUMENT, headers=PDF).json()["id"]
        worked = ran(tmp_path, f"{target}:app", "--until-idle", command="worker")
        assert worked.returncode == 0, worked.stderr
        assert client.get(f"/v1/jobs/{job_id}").json()["status"] == "completed"
        assert ended(process) == 0


def ran(home: Path, *options: str, command: str = "serve", **more: str) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-m", "forebay", command, *options]
    return subprocess.run(
        asked, capture_output=True, text=True, check=False, timeout=150, env=environment(home) | more
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["FOREBAY_BLOBS", "FOREBAY_LIMITS"])
def test_an_address_that_names_no_store_is_refused_at_the_start(tmp_path: Path, variable: str) -> None:
    for command, options in {"serve": ["--port", "0", "--no-worker"], "worker": ["--until-idle"]}.items():
        refused = ran(tmp_path, *options, command=command, **{variable: "nope://hunter2"})
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1), refused.stderr
        assert (refused.stdout, "store" in refused.stderr, "hunter2" in refused.stderr) == ("", True, False)


@pytest.mark.slow
def test_it_refuses_to_be_reached_by_everybody(tmp_path: Path) -> None:
    refused = ran(tmp_path, "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2
    assert "forebay keys create" in refused.stderr
    with Forebay(f"sqlite:///{tmp_path}/forebay.db") as app:
        token = create(app, "one", ["read"]).token
    with served(tmp_path, "--host", "0.0.0.0", "--no-worker") as (client, process):
        port = client.base_url.port
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as near:
            assert near.get("/v1/jobs").status_code == 401
            known: dict[str, Any] = {"authorization": f"Bearer {token}"}
            assert near.get("/v1/jobs", headers=known).status_code == 200
        assert ended(process) == 0


def test_an_application_with_a_ledger_of_its_own_is_served_with_no_other(tmp_path: Path) -> None:
    target = tmp_path / "own.py"
    target.write_text(f"from forebay import Forebay\napp = Forebay('sqlite:///{tmp_path}/own.db')\n")
    refused = ran(tmp_path, f"{target}:app", "--port", "0", "--ledger", f"sqlite:///{tmp_path}/other.db")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "was made with a ledger of its own" in refused.stderr


@pytest.mark.slow
def test_a_port_that_is_taken_is_said_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = ran(tmp_path, "--port", str(taken.getsockname()[1]))
    assert refused.returncode == 2
    assert "is in use" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
def test_a_host_that_can_be_no_name_is_said_so(tmp_path: Path) -> None:
    with Forebay(f"sqlite:///{tmp_path}/forebay.db") as app:
        create(app, "one", ["read"])
    refused = ran(tmp_path, "--host", "a..b", "--port", "0")
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False), refused.stderr
    assert "--host" in refused.stderr
