"""A worker as a process of its own, what it uses, and the ways to start one of either engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.work import marks, ours

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True, eq=False)
class Engine:
    """How to start a worker: `arguments` for benchmarks.work.start, and what its environment adds."""

    name: str
    arguments: tuple[str, ...]
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        return self.arguments[0] == "ours"


def forebay(
    concurrency: int, processes: int = 2, *, blocking: bool = False, settings: Mapping[str, str] | None = None
) -> Engine:
    kind = f"blocking, processes {processes}" if blocking else "async"
    extra = {f"FOREBAY_{name.upper()}": value for name, value in (settings or {}).items()}
    if blocking:
        extra[ours.BLOCKING] = "1"
    return Engine(f"Forebay {kind}, concurrency {concurrency}", ("ours", str(concurrency), str(processes)), extra)


def huey(workers: int, worker_type: str = "thread", delay_s: float = 0.001) -> Engine:
    named = f"{worker_type}{'es' if worker_type == 'process' else 's'}"
    return Engine(f"Huey, {workers} {named}", ("theirs", str(workers), worker_type, str(delay_s)))


class Running:
    """The worker and all that it starts, in a session of its own; ended with the block."""

    def __init__(self, engine: Engine, file: Path, marks_file: Path) -> None:
        environment = os.environ | engine.extra | {ours.LEDGER: str(file), marks.VARIABLE: str(marks_file)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.work.start", *engine.arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        family = self.pids()
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        if self._process.poll() is not None:
            raise SystemExit(f"the worker ended by itself with code {self._process.returncode}")

    def pids(self) -> list[int]:
        """The worker first, then its children."""
        found = [self.pid]
        for pid in found:
            with suppress(OSError):
                for thread in (_PROC / str(pid) / "task").iterdir():
                    found += map(int, (thread / "children").read_text().split())
        return found

    def cpu_s(self) -> tuple[float, float]:
        """Of the worker, and of its children, so far."""
        each = [_cpu_s(pid) for pid in self.pids()]
        return each[0], sum(each[1:])

    def resident_mib(self) -> tuple[float, float]:
        """Of the worker, and of its children: memory that is theirs alone, without mapped files."""
        each = [_anonymous_kib(pid) / 1024 for pid in self.pids()]
        return each[0], sum(each[1:])


def _cpu_s(pid: int) -> float:
    with suppress(OSError):
        used = (_PROC / str(pid) / "stat").read_text("latin-1").rpartition(")")[2].split()[11:13]
        return sum(map(int, used)) / _TICKS
    return 0.0


def _anonymous_kib(pid: int) -> int:
    with suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
    return 0


def until(running: Running, marked: marks.Marks, first: int = 0, last: int | None = None) -> None:
    """Wait until all of these tasks have begun."""
    while marked.missing(first, last):
        running.check()
        time.sleep(0.002)
