"""Runs the two processes that drive the sessions, and passes orders and reports between them and their leader."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from types import TracebackType
from typing import Any, Self

from chaos.limits.worker import end_with_parent

COUNT = 2
_REPORT_WITHIN_S = 300.0

Drive = Callable[[int, Connection], None]


class Drivers:
    """`drive` runs in each forked process, with its number and the line to the leader."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._lines: list[tuple[int, Connection]] = []

    def __enter__(self) -> Self:
        for number in range(COUNT):
            mine, its = Pipe()
            pid = os.fork()
            if pid == 0:
                self._run(number, its)
            its.close()
            self._lines.append((pid, mine))
        return self

    def _run(self, number: int, line: Connection) -> None:
        status = 1
        try:
            end_with_parent()
            self._drive(number, line)
            status = 0
        except BaseException:  # noqa: BLE001 - it must not go on as its parent
            traceback.print_exc()
        finally:
            os._exit(status)

    def tell(self, *order: Any) -> None:  # noqa: ANN401 - whatever can be pickled
        for _, line in self._lines:
            line.send(order)

    def hear(self) -> list[Any]:
        """What each of them reports."""
        gives_up_at = time.monotonic() + _REPORT_WITHIN_S
        found = []
        for _, line in self._lines:
            if not line.poll(max(0.0, gives_up_at - time.monotonic())):
                raise SystemExit("a driver of sessions did not report")
            found.append(line.recv())
        return found

    def ask(self, *order: Any) -> list[Any]:  # noqa: ANN401 - same
        self.tell(*order)
        return self.hear()

    @property
    def pids(self) -> list[int]:
        return [pid for pid, _ in self._lines]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pid, line in self._lines:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            line.close()
