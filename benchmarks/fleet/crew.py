"""The processes of one measurement, which begin at the same instant and are ended with the block."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.fleet.orders import Orders
from benchmarks.limits_fleet.processes import cpu_s
from benchmarks.work.marks import Marks

_END_S = 5.0
_TICK_S = 0.004


class Wrong(Exception):
    """A measurement that counts for nothing: something ran twice, or not at all, or over the limit."""


class Crew:
    def __init__(self, orders: Orders, processes: int) -> None:
        self._complaints = (Path(orders.folder) / "complaints").open("w+b")
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.fleet.start", orders.text()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                env=os.environ | orders.environment(),
            )
            for _ in range(processes)
        ]

    def __enter__(self) -> Self:
        try:
            for process in self._processes:
                assert process.stdout is not None
                if process.stdout.readline() != b"ready\n":
                    self.check(ended=True)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def go(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            process.stdin.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        gives_up_at = time.monotonic() + _END_S
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, gives_up_at - time.monotonic()))
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
        self._complaints.close()

    def check(self, *, ended: bool = False) -> None:
        if ended or any(process.poll() is not None for process in self._processes):
            self._complaints.seek(0)
            said = self._complaints.read().decode(errors="replace").strip()
            raise Wrong(f"a worker ended by itself:\n{said[-3000:]}")

    def until(self, is_so: Callable[[], bool], *, within_s: float) -> bool:
        """Wait for it; False if the time was not enough."""
        gives_up_at = time.monotonic() + within_s
        while not is_so():
            if time.monotonic() > gives_up_at:
                return False
            self.check()
            time.sleep(_TICK_S)
        return True

    def until_begun(self, marked: Marks, count: int, *, within_s: float = 120.0) -> None:
        if not self.until(lambda: not marked.missing(0, count), within_s=within_s):
            raise Wrong(f"{marked.missing(0, count)} of {count} tasks never ran")

    def cpu_s(self) -> float:
        """Of the workers so far, without their children, of which async handlers have none."""
        return cpu_s(process.pid for process in self._processes)
