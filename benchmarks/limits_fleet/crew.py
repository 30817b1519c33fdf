"""Forks the processes of one measurement, tells them when to begin, and ends each by its number."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.limits_fleet.member import ORDERS, READY, Member
from benchmarks.limits_fleet.plan import Plan
from benchmarks.limits_fleet.sides import Side
from benchmarks.limits_fleet.tally import Tally, added_up
from chaos.limits.worker import end_with_parent

_READY_WITHIN_S = 60.0
_REPORT_WITHIN_S = 30.0
_TICK_S = 0.02


class Broken(Exception):
    """A process of the fleet ended by itself, or never began: the measurement counts for nothing."""


@dataclass(frozen=True, slots=True)
class _Forked:
    pid: int
    control: socket.socket
    report: Path


class Crew:
    """Opens nothing itself before it has forked: what a parent holds open, its children hold as well."""

    def __init__(self, plan: Plan, side: Side, judge: int, folder: Path) -> None:
        self._plan = plan
        self._side = side
        self._judge = judge
        self._folder = folder
        self._forked: list[_Forked] = []

    def __enter__(self) -> Self:
        # What was loaded so far stays in pages that all of them share.
        gc.collect()
        gc.freeze()
        try:
            for number in range(self._plan.processes):
                self._fork(number)
            self._until_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _fork(self, number: int) -> None:
        mine, its = socket.socketpair()
        report = self._folder / f"{number}.json"
        report.unlink(missing_ok=True)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                end_with_parent()
                mine.close()
                for other in self._forked:
                    other.control.close()
                Member(number, self._plan, self._side, self._judge).run(its, report)
                status = 0
            except BaseException:  # noqa: BLE001 - it must not go on as its parent
                traceback.print_exc()
            finally:
                os._exit(status)
        its.close()
        self._forked.append(_Forked(pid, mine, report))

    def _until_ready(self) -> None:
        gives_up_at = time.monotonic() + _READY_WITHIN_S
        for each in self._forked:
            each.control.settimeout(max(0.1, gives_up_at - time.monotonic()))
            if each.control.recv(1) != READY:
                raise Broken("a process of the fleet did not begin")

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self._forked]

    def go(self, counts_from: float, counts_until: float) -> None:
        for each in self._forked:
            each.control.sendall(ORDERS.pack(counts_from, counts_until))

    def reported(self) -> Tally:
        """What all of them saw; a process that was too busy to say it in time is told of."""
        gives_up_at = time.monotonic() + _REPORT_WITHIN_S
        while time.monotonic() < gives_up_at and not all(each.report.exists() for each in self._forked):
            time.sleep(_TICK_S)
        found = [each.report.read_text("ascii") for each in self._forked if each.report.exists()]
        total = added_up([_parsed(text) for text in found])
        if len(found) < len(self._forked):
            total.counts["processes without a report"] += len(self._forked) - len(found)
        return total

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._forked:
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)
        for each in self._forked:
            with suppress(ChildProcessError):
                os.waitpid(each.pid, 0)
            each.control.close()
        self._forked.clear()
        gc.unfreeze()


def _parsed(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found
