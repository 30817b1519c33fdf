"""Every end of a job is told at least once under one id, whatever happens to senders, receivers and names."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from forebay.model.callback import KIND
from forebay.model.query import Query
from forebay.model.task import Status, Task
from tests.callbacks.sender import PUBLIC, REBINDING, SCHEDULE_S
from tests.engine.ground import Ground

HANDLERS = str(Path(__file__).with_name("handlers.py"))
KEY = "a key of the operator's own"
DOOMED = "claimed=kill@0.05,response_read=kill@0.2,result_durable=kill@0.1,settled=kill@0.1"
ANSWERS = [
    ("ok",),
    ("hang", "ok"),
    ("500", "ok"),
    ("429:1", "ok"),
    ("301", "ok"),
    ("hang", "500", "301", "429:0", "ok"),
]


class Trap:
    """Listens where nobody may connect to, and counts who does."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.count = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._listener.accept()[0].close()
                self.count += 1

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)


class Scene:
    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.connects = folder / "connects"
        self._environment = environment
        self._running: list[subprocess.Popen[str]] = []

    def receiver(self) -> tuple[int, Path]:
        record = self.folder / "received.jsonl"
        started = self._start("tests.callbacks.receiver", str(record), "3", stdin=subprocess.PIPE)
        assert started.stdout is not None
        return int(started.stdout.readline()), record

    def sender(self, failpoints: str = "") -> subprocess.Popen[str]:
        arguments = ("tests.callbacks.sender", str(self.connects), str(self.folder))
        return self._start(*arguments, environment={"FOREBAY_FAILPOINTS": failpoints})

    def _start(
        self, module: str, *arguments: str, stdin: int | None = None, environment: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        with (self.folder / "errors").open("a") as errors:
            started = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env={**os.environ, **self._environment, **(environment or {})},
                cwd=Path(__file__).parents[2],
                stdin=stdin if stdin is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._running.append(started)
        return started

    def close(self) -> None:
        for each in self._running:
            each.kill()
            each.wait()
            for stream in (each.stdin, each.stdout):
                if stream is not None:
                    stream.close()


@contextmanager
def scene(folder: Path, environment: dict[str, str]) -> Iterator[Scene]:
    made = Scene(folder, environment)
    try:
        yield made
    finally:
        made.close()


def _until(look: Callable[[], bool], within_s: float) -> None:
    ends_at = time.monotonic() + within_s
    while not look():
        assert time.monotonic() < ends_at, "it did not come to pass"
        time.sleep(0.1)


def _callbacks(here: Ground) -> list[Task]:
    return [task for row in here.app.callbacks.deliveries(size=500).items if (task := here.app.ledger.get(row.id))]


def _environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    environment = {
        "TEST_LEDGER": f"sqlite:///{folder}/ledger.db",
        "TEST_BLOBS": f"file://{folder}/blobs",
        "FOREBAY_CALLBACK_KEY": KEY,
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return environment


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_every_end_arrives_while_senders_are_killed_and_receivers_misbehave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = _environment(tmp_path, monkeypatch)
    here = Ground(tmp_path, HANDLERS, callback_loopback="allow", callback_timeout_s=1.0)
    here.app.callbacks.schedule_s = SCHEDULE_S
    trap = Trap()
    with scene(tmp_path, environment) as running:
        port, record = running.receiver()
        jobs: dict[str, str] = {}
        for number in range(18):
            answers = ",".join(ANSWERS[number % len(ANSWERS)])
            url = f"http://127.0.0.1:{port}/hook{number % 5}?answers={answers}"
            text = "bad\none" if number % 4 == 3 else "one\ntwo words"
            jobs[here.app.start("words", {"text": text}, callback=url).id] = url
        rebinding = [
            here.app.start("words", {"text": "one"}, callback=f"https://{REBINDING}:{trap.port}/{number}").id
            for number in range(3)
        ]
        endpoints = here.app.callbacks.endpoints()
        record.with_suffix(".secrets").write_text(json.dumps([here.app.callbacks.secret(each) for each in endpoints]))
        for _ in range(4):
            doomed = [running.sender(DOOMED), running.sender(DOOMED)]
            time.sleep(1.5)
            for each in doomed:
                each.kill()
                each.wait()
        for _ in range(2):
            running.sender()

        def all_ended() -> bool:
            told = _callbacks(here)
            return len(told) == len(jobs) + len(rebinding) and all(task.status.terminal for task in told)

        _until(all_ended, 60)
    trap.close()
    tasks = {task.id: task for task in _callbacks(here)}
    received = defaultdict(list)
    for line in record.read_text().splitlines():
        seen = json.loads(line)
        received[seen["id"]].append(seen)
    delivered = [task for task in tasks.values() if task.job_id in jobs]
    assert {task.job_id for task in delivered} == jobs.keys()
    assert {task.status for task in delivered} == {Status.COMPLETED}
    for task in delivered:
        attempts = received[task.id]
        assert all(each["verified"] for each in attempts)
        assert len({each["body"] for each in attempts}) == 1
        assert "ok" in {each["said"] for each in attempts}
        job = here.app.get(task.job_id or "")
        assert json.loads(attempts[0]["body"])["type"] == f"job.{job.status}"
    assert received.keys() == {task.id for task in delivered}
    _check_nobody_was_led_astray(here, running.connects, trap, rebinding)
    here.app.close()


def _check_nobody_was_led_astray(here: Ground, connects: Path, trap: Trap, rebinding: list[str]) -> None:
    made = {line.split()[0] for line in connects.read_text().splitlines()}
    assert made <= {"127.0.0.1", PUBLIC}
    assert "169.254.169.254" not in made
    assert f"127.0.0.1 {trap.port}" not in connects.read_text().splitlines()
    assert trap.count == 0
    for row in here.app.ledger.list_tasks(Query(kind=KIND, status=Status.FAILED)).items:
        assert row.job_id in rebinding
        texts = {past.error_text for past in here.app.history(row.id)}
        assert any("has no public address" in (text or "") for text in texts)
        assert here.app.get(row.job_id or "").status is Status.COMPLETED


@pytest.mark.slow
def test_a_sender_killed_between_the_answer_and_its_record_sends_again_under_the_same_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = _environment(tmp_path, monkeypatch)
    here = Ground(tmp_path, HANDLERS, callback_loopback="allow")
    with scene(tmp_path, environment) as running:
        port, record = running.receiver()
        endpoint = here.app.callbacks.known_endpoint(f"http://127.0.0.1:{port}/hook")
        record.with_suffix(".secrets").write_text(json.dumps([here.app.callbacks.secret(endpoint)]))
        made = here.app.callbacks.test(endpoint)
        assert running.sender("response_read=kill").wait(20) == -signal.SIGKILL
        assert here.task(made.id).status is Status.RUNNING
        running.sender()
        _until(lambda: here.task(made.id).status is Status.COMPLETED, 20)
    seen = [json.loads(line) for line in record.read_text().splitlines()]
    assert [(each["id"], each["said"], each["verified"]) for each in seen] == [(made.id, "ok", True)] * 2
    assert seen[0]["timestamp"] <= seen[1]["timestamp"]
    assert seen[0]["body"] == seen[1]["body"]
    here.app.close()


def test_the_trap_counts_who_connects() -> None:
    trap = Trap()
    socket.create_connection(("127.0.0.1", trap.port)).close()
    _until(lambda: trap.count == 1, 5)
    trap.close()
