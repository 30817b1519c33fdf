"""A provider, workers on real stores, and the judge of what the provider saw."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from chaos.checker import Verdict
from chaos.limits import judge, records
from chaos.limits.records import Records
from chaos.limits.rules import Rules
from forebay.app.forebay import Forebay
from forebay.app.target import load
from forebay.settings import load as load_settings

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
TARGET = "tests.acceptance.app:app"


class Ground:
    """One run: its stores by their addresses, its provider, its workers."""

    def __init__(self, folder: Path, *, ledger: str, limits: str, terms: dict[str, Any], **options: str) -> None:
        self.folder = folder
        self.record = folder / "seen.jsonl"
        self._stack = ExitStack()
        self.port = self._stack.enter_context(provider(self.record))
        named = {f"ACCEPTANCE_{name.upper()}": value for name, value in options.items()}
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            "FOREBAY_HOME": str(folder),
            "FOREBAY_LEDGER": ledger,
            "FOREBAY_LIMITS": limits,
            "FOREBAY_ENV": folder.name.lower().replace("_", "-")[-40:],
            "FOREBAY_LEASE_S": "3",
            "FOREBAY_POLL_S": "1",
            "ACCEPTANCE_TERMS": json.dumps(terms),
            "ACCEPTANCE_PORT": str(self.port),
            **named,
        }
        self._workers: list[subprocess.Popen[bytes]] = []
        self.app: Forebay = load(TARGET)
        self.app.__dict__["settings"] = load_settings(environ=self.environment)
        self._stack.callback(self.app.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._stack.close()

    def work(self, count: int, *, concurrency: int = 10) -> None:
        """Start workers, and wait until all of them are there."""
        command = [sys.executable, "-m", "forebay", "worker", TARGET, "--concurrency", str(concurrency)]
        for _ in range(count):
            log = (self.folder / f"worker-{len(self._workers)}.log").open("wb")
            with log:
                self._workers.append(subprocess.Popen(command, env=self.environment, cwd=ROOT, stdout=log, stderr=log))
        self.until(lambda: len(self.app.ledger.sessions()) == len(self._workers))

    def stop(self) -> None:
        for worker in self._workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self._workers:
            worker.wait(90)
        self._workers.clear()

    def logged(self, event: str) -> list[dict[str, Any]]:
        """What the workers said of it."""
        lines = [line for log in sorted(self.folder.glob("worker-*.log")) for line in log.read_text().splitlines()]
        return [json.loads(line) for line in lines if f'"event": "{event}"' in line]

    def order(self, **order: object) -> dict[str, Any]:
        """Tell the provider how to answer from now on."""
        with socket.create_connection(("127.0.0.1", self.port)) as line:
            line.sendall(json.dumps(order).encode() + b"\n")
            answer: dict[str, Any] = json.loads(line.makefile().readline())
            return answer

    def until(self, look: Callable[[], T | None], *, within_s: float = 120.0) -> T:
        ends_at = time.monotonic() + within_s
        while time.monotonic() < ends_at:
            found = look()
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"it did not come to pass within {within_s:g} s: see {self.folder}")

    def seen(self) -> Records:
        return records.read(self.record).of("api")

    def judged(self, rules: Rules) -> Verdict:
        return judge.judge(self.record, {"api": rules})


@contextmanager
def provider(record: Path) -> Iterator[int]:
    command = [sys.executable, "-m", "chaos.limits.provider", "--record", str(record)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(json.loads(process.stdout.readline())["port"])
        finally:
            process.kill()
