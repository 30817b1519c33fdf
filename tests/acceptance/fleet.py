"""Servers and workers as processes of their own, over one ledger and one folder of blobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from forebay.app.forebay import Forebay
from forebay.settings import load
from tests.server.ground import Service

_ENDS_WITHIN_S = 60


class Process:
    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        with log.open("wb") as said:
            self.running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=said)

    def line(self) -> bytes:
        assert self.running.stdout is not None
        return self.running.stdout.readline()

    def struck(self, number: signal.Signals) -> None:
        self.running.send_signal(number)

    def ended(self) -> int:
        """How it ended; it must have been asked to."""
        return self.running.wait(_ENDS_WITHIN_S)

    def close(self) -> None:
        self.running.kill()
        self.running.wait()
        if self.running.stdout is not None:
            self.running.stdout.close()


class Fleet:
    """What still runs at its end is killed; `app` looks at the same stores from this process.

    Settings are given as the environment has them, without their prefix.
    """

    def __init__(self, folder: Path, ledger: str, **settings: str) -> None:
        self._folder = folder
        self._count = 0
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
        self._environment = kept | {
            "FOREBAY_HOME": str(folder),
            "FOREBAY_LEDGER": ledger,
            "FOREBAY_LEASE_S": "2",
            "FOREBAY_POLL_S": "0.5",
            "FOREBAY_DRAIN_GRACE_S": "10",
            **{f"FOREBAY_{name.upper()}": value for name, value in settings.items()},
        }
        self._stack = ExitStack()
        self.app = Forebay(settings=load(environ=self._environment, cwd=folder))
        self._stack.callback(self.app.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def serve(self, count: int = 1) -> list[tuple[Service, Process]]:
        """Such as run no task."""
        started = [self._start("serve", "--no-worker", "--port", "0", "-o", "ndjson") for _ in range(count)]
        return [(self._service(process), process) for process in started]

    def _service(self, process: Process) -> Service:
        line = process.line()
        assert line, f"it did not start: see {self._folder}"
        service = Service(self.app, json.loads(line)["address"], partial(process.struck, signal.SIGTERM))
        self._stack.enter_context(service.client)
        return service

    def work(self, *options: str) -> Process:
        return self._start("worker", *options)

    def _start(self, *arguments: str) -> Process:
        self._count += 1
        log = self._folder / f"{arguments[0]}-{self._count}.log"
        process = Process([sys.executable, "-m", "forebay", *arguments], self._environment, log)
        self._stack.callback(process.close)
        return process


def until(look: Callable[[], object], *, within_s: float = 120.0) -> None:
    ends_at = time.monotonic() + within_s
    while not look():
        assert time.monotonic() < ends_at, "it did not come to pass"
        time.sleep(0.02)
