"""A home folder of its own for each test, and the command line run in it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forebay.app.forebay import Forebay
from forebay.cli import main
from forebay.clock import SystemClock
from forebay.model.job import NewJob
from forebay.model.task import NewTask
from forebay.settings import load
from forebay.testing.workers import Worker


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever JSON holds
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Ground:
    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self.ledger = home / "forebay.db"
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def run(self, *arguments: str, stdin: bytes = b"") -> Answer:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capsys.readouterr()
        code = main(list(arguments))
        out, err = self._capsys.readouterr()
        return Answer(code, out, err)

    def ok(self, *arguments: str, stdin: bytes = b"") -> Answer:
        answer = self.run(*arguments, stdin=stdin)
        assert answer.code == 0, answer
        return answer

    @contextmanager
    def app(self) -> Iterator[Forebay]:
        with Forebay(settings=load()) as app:
            yield app

    @contextmanager
    def worker(self, name: str = "worker-1") -> Iterator[Worker]:
        with self.app() as app:
            yield Worker(app.ledger, SystemClock(), name)

    def submit(self, *new: NewTask | NewJob) -> list[str]:
        with self.app() as app:
            return [answer.id for answer in app.ledger.submit(new)]


def program(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401 - of subprocess
    """The real thing, for what only a process of its own shows."""
    command = [sys.executable, "-m", "forebay", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=150, **options)
