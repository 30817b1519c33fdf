from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from forebay import ids
from forebay.model.exchange import Session
from tests.cli.ground import Ground, program
from tests.servers.fresh import fresh_schema
from tests.servers.relay import Relay
from tests.servers.server import Server

APP = """
import time
from pathlib import Path

from forebay import Forebay, Reschedule

app = Forebay()

@app.task("add")
async def add(ctx, a, b):
    return a + b

@app.task("sleep")
def sleep(ctx, seconds):
    Path("began").touch()
    time.sleep(seconds)
    return "slept"
"""


@pytest.fixture
def folder(here: Ground) -> Path:
    folder = here.home.parent
    (folder / "myapp.py").write_text(APP)
    (folder / "broken.py").write_text("import json\njson.loads('{')\n")
    (folder / "own.py").write_text(APP.replace("Forebay()", "Forebay('sqlite:///own.db')"))
    return folder


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "forebay", "worker", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def log_until(process: subprocess.Popen[str], event: str) -> str:
    assert process.stderr is not None
    seen = ""
    while f'"event": "{event}"' not in seen:
        line = process.stderr.readline()
        assert line, seen
        seen += line
    return seen


def test_a_worker_runs_tasks_serves_metrics_and_drains_on_sigterm(here: Ground, folder: Path) -> None:
    with running("myapp:app", "--name", "worker-7", "--concurrency", "2", "--metrics-port", "0") as process:
        log = log_until(process, "worker_started")
        assert '"concurrency": 2' in log
        (address,) = re.findall(r'"address": "([^"]+)"', log)
        added = here.ok("submit", "-t", "add", "-i", '{"a": 1, "b": 2}', "--wait", "--wait-timeout", "20")
        assert here.ok("result", added.out.strip()).out == "3\n"
        with urllib.request.urlopen(address, timeout=5) as reply:
            assert b'forebay_tasks_settled_total{kind="add",outcome="completed"} 1.0' in reply.read()
        slept = here.ok("submit", "-t", "sleep", "-i", '{"seconds": 2}').out.strip()
        while not (folder / "began").exists():
            time.sleep(0.02)
        (worker,) = here.ok("workers", "-o", "json").json
        assert (worker["worker"], worker["running"]) == ("worker-7", [slept])
        assert {"add", "callback", "sleep", "ocr.local"} <= {*worker["kinds"]}
        assert "worker-7" in here.ok("workers").out
        os.kill(process.pid, signal.SIGTERM)
        log = log_until(process, "worker_stopped")
        assert [json.loads(line)["worker"] for line in log.splitlines()] == ["worker-7"] * len(log.splitlines())
        assert process.wait(60) == 0
    assert here.ok("get", slept, "-o", "json").json["result"] == "slept"
    assert here.ok("workers", "-o", "json").json == []


def test_a_worker_sets_up_the_interpreter_of_its_own_process(here: Ground) -> None:
    here.ok("submit", "-t", "add", "-i", '{"a": 1, "b": 2}')
    with running(f"{Path(__file__).parent / 'interpreter_app.py'}:app", "--until-idle") as process:
        assert process.wait(60) == 0
    noted = json.loads((here.home / f"interpreter-{process.pid}.json").read_text())
    assert noted == {"threshold": 20_000, "switch_s": pytest.approx(0.001), "frozen": True, "garbage": False}


@pytest.mark.slow
def test_a_worker_is_asked_to_end_by_its_name_or_its_session(
    here: Ground, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_LEASE_S", "3")
    with running("myapp:app", "--name", "one") as one, running("myapp:app", "--name", "two") as two:
        log_until(one, "worker_started")
        log_until(two, "worker_started")
        slept = here.ok("submit", "-t", "sleep", "-i", '{"seconds": 2}').out.strip()
        while not (folder / "began").exists():
            time.sleep(0.02)
        assert here.run("worker", "--drain", "nobody").code == 4
        assert here.run("worker", "myapp:app", "--drain", "one").code == 2
        here.ok("worker", "--drain", "one")
        sessions = {each["worker"]: each for each in here.ok("workers", "-o", "json").json}
        here.ok("worker", "--drain", sessions["two"]["id"][:10])
        assert (one.wait(60), two.wait(60)) == (0, 0)
    assert here.ok("get", slept, "-o", "json").json["result"] == "slept"


@pytest.mark.slow
def test_a_worker_takes_its_ledger_from_the_flag_and_its_application_from_a_file(here: Ground, folder: Path) -> None:
    identifier = here.ok("submit", "-t", "add", "-i", '{"a": 1, "b": 2}', "--ledger", "sqlite:///flag.db").out.strip()
    with running(str(folder / "myapp.py") + ":app", "--ledger", "sqlite:///flag.db") as process:
        log_until(process, "worker_started")
        while here.run("result", identifier, "--ledger", "sqlite:///flag.db").code:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 0
    assert not here.ledger.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["missing:app"], 4, "There is no module 'missing' here."),
        (["missing.py:app"], 4, "There is no file 'missing.py'."),
        (["myapp:nothing"], 4, "myapp has no application 'nothing'."),
        (["own:app", "--ledger", "sqlite:///x.db"], 2, "'own:app' was made with a ledger of its own."),
        (["myapp:app", "--concurrency", "0"], 2, "concurrency is 0."),
        (["myapp:app", "--metrics-port", "70000"], 2, "metrics_port is 70000."),
    ],
)
def test_a_wrong_target_or_option_is_said_in_one_line(
    arguments: list[str], code: int, complaint: str, folder: Path
) -> None:
    run = program("worker", *arguments)
    assert (run.returncode, run.stderr.count("\n")) == (code, 1), run.stderr
    assert complaint in run.stderr


@pytest.mark.slow
def test_a_ledger_that_is_none_ends_a_worker_before_it_begins(folder: Path) -> None:
    (folder / "notes.db").write_text("no database at all, but long enough to be looked at " * 100)
    run = program("worker", "myapp:app", "--ledger", "sqlite:///notes.db")
    assert run.returncode == 5, run.stderr
    assert "notes.db" in run.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_module_that_fails_shows_its_own_traceback_only_when_verbose(folder: Path) -> None:
    quiet = program("worker", "broken:app")
    assert quiet.returncode == 2
    assert quiet.stderr.count("\n") == 1
    assert "JSONDecodeError" in quiet.stderr
    assert "broken.py, line 2" in quiet.stderr
    verbose = program("worker", "broken:app", "--verbose")
    assert verbose.returncode == 2
    assert verbose.stderr.startswith("Traceback (most recent call last):\n  File ")
    assert "broken.py" in verbose.stderr.splitlines()[1]
    assert "cyclopts" not in verbose.stderr


def test_workers_are_shown_with_their_host_and_version(here: Ground) -> None:
    here.ok("store", "init")
    with here.app() as app:
        app.ledger.open_session(Session(id=ids.random_id(), worker="w-1", host="machine-7", version="1.2.3"))
    head, row = here.ok("workers").lines
    assert head.split()[:3] == ["WORKER", "HOST", "VERSION"]
    assert row.split()[:3] == ["w-1", "machine-7", "1.2.3"]
    (told,) = here.ok("workers", "-o", "json").json
    assert (told["host"], told["version"]) == ("machine-7", "1.2.3")


@pytest.mark.slow
def test_a_worker_that_runs_tells_its_own_host_and_version(here: Ground, folder: Path) -> None:
    with running("myapp:app") as process:
        log_until(process, "worker_started")
        (told,) = here.ok("workers", "-o", "json").json
        assert (told["host"], told["version"]) == (socket.gethostname(), version("forebay")), folder
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0


def test_no_workers_is_said_on_stderr(here: Ground) -> None:
    here.ok("store", "init")
    answer = here.ok("workers")
    assert (answer.out, "forebay worker" in answer.err) == ("", True)


def test_a_worker_that_is_told_to_end_while_it_starts_has_drained(here: Ground, folder: Path) -> None:
    (folder / "slow.py").write_text("import time\nfrom pathlib import Path\nPath('loading').touch()\ntime.sleep(60)\n")
    with running("slow:app") as process:
        while not (folder / "loading").exists():
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0, here.home


@pytest.mark.slow
def test_a_worker_that_drains_without_its_ledger_ends_with_5_and_a_line_of_its_log(
    here: Ground, folder: Path, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = urlsplit(postgres_server.url)
    with fresh_schema(postgres_server) as address, Relay(server.hostname or "", server.port or 0) as relay:
        monkeypatch.setenv("FOREBAY_LEDGER", address.replace(f":{server.port}", f":{relay.port}"))
        monkeypatch.setenv("FOREBAY_DRAIN_GRACE_S", "1")
        with running("myapp:app") as process:
            log_until(process, "worker_started")
            relay.cut()
            os.kill(process.pid, signal.SIGTERM)
            assert process.stderr is not None
            lines = process.stderr.read().splitlines()
            assert process.wait(60) == 5, (here.home, folder)
    events = [json.loads(line)["event"] for line in lines]
    assert events[-1] == "worker_failed"
