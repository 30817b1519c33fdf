"""Keeps the processes of a run: starts them, sees them stop and end, and looks for what they left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from chaos.engine import app, leftovers
from chaos.engine.life import Life, fork
from chaos.journal import Journal

GONE_WITHIN_S = 1.0
_AGAIN_S = 3.0


@dataclass(slots=True)
class Horse:
    """A process that runs, or None of it."""

    place: str
    lives: int = 0
    name: str = ""
    pid: int = 0
    wakes_at: float | None = None
    told_at: float | None = None
    asked_to_stop: bool = False
    spared_until: float = 0.0
    aim: str = ""


class Stable:
    """All that happens to a process is noted with the times of both clocks."""

    def __init__(self, journal: Journal, mark: tuple[str, str], stop_s: Callable[[], float]) -> None:
        """`mark` is a variable that all processes of this run have, and none of another."""
        self._journal = journal
        self._mark = mark
        self._stop_s = stop_s
        self._dead: list[tuple[float, str, str]] = []
        self.kills = 0

    def start(self, horse: Horse, life: Life, run: Callable[[], None]) -> None:
        horse.lives += 1
        horse.name, horse.wakes_at, horse.told_at, horse.asked_to_stop = life.name, None, None, False
        horse.pid = fork(life, run)
        self._journal.note("started", life=life.name, pid=horse.pid, failpoints=life.failpoints)

    def kill(self, horse: Horse) -> None:
        # Noted before, so that whatever the victim wrote is older than a note of its death would be.
        self._journal.note("kill", life=horse.name)
        os.kill(horse.pid, signal.SIGKILL)

    def stop(self, horse: Horse) -> None:
        self._journal.note("stop", life=horse.name)
        horse.asked_to_stop = True
        os.kill(horse.pid, signal.SIGSTOP)

    def term(self, horse: Horse) -> None:
        self._journal.note("term" if horse.told_at is None else "term again", life=horse.name)
        horse.told_at = horse.told_at or time.monotonic()
        os.kill(horse.pid, signal.SIGTERM)

    def wake(self, horse: Horse) -> None:
        horse.wakes_at = None
        # What it does late is what the run is about: it gets the time for it.
        horse.spared_until = time.monotonic() + GONE_WITHIN_S
        self._journal.note("cont", life=horse.name)
        os.kill(horse.pid, signal.SIGCONT)

    def watch(self, horse: Horse) -> bool:
        """Look after one; False when it has just ended."""
        pid, status = os.waitpid(horse.pid, os.WNOHANG | os.WUNTRACED)
        if not pid:
            if horse.wakes_at is not None and time.monotonic() >= horse.wakes_at:
                self.wake(horse)
            return True
        if os.WIFSTOPPED(status):
            self._journal.note("stopped", life=horse.name, outside=horse.asked_to_stop)
            horse.asked_to_stop = False
            horse.wakes_at = time.monotonic() + self._stop_s()
            return True
        self._ended(horse, os.waitstatus_to_exitcode(status))
        return False

    def _ended(self, horse: Horse, code: int) -> None:
        self.kills += code == -signal.SIGKILL
        took_s = None if horse.told_at is None else time.monotonic() - horse.told_at
        self._journal.note("ended", life=horse.name, code=code, told=took_s is not None, took_s=took_s)
        self._dead.append((time.monotonic() + GONE_WITHIN_S, horse.name, "looked"))
        horse.pid = 0

    def look_for_leftovers(self, *, to_the_last: bool = False) -> None:
        while self._dead and (to_the_last or self._dead[0][0] <= time.monotonic()):
            due, name, event = self._dead.pop(0)
            time.sleep(max(0.0, due - time.monotonic()))
            left = leftovers.of(dict([(app.LIFE, name), self._mark]))
            self._journal.note(event, life=name, left=list(left), cpu_s=list(left.values()))
            if left and event == "looked":
                self._dead.append((time.monotonic() + _AGAIN_S, name, "looked again"))
                self._dead.sort()
            elif left:
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
