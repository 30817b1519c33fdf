"""Runs internal threads: what one of them raises is reported as an event, and its work begins again after a pause."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from forebay.observe import emit

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0
_CALM_S = 30.0  # a thread that worked for this long had recovered
_OURS = f"{os.sep}forebay{os.sep}"


class Failures:
    """Failures of one loop in a row: reports each, and says how long to pause, twice as long each time."""

    def __init__(self) -> None:
        self.count = 0
        self._failed_at = 0.0

    def report(self, thread: str, error: BaseException) -> float:
        now = time.monotonic()
        if now - self._failed_at > _CALM_S:
            self.clear()
        self._failed_at = now
        self.count += 1
        pause_s: float = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self.count - 1, 16))
        report_failure(thread, error, restart_count=self.count, pause_s=pause_s)
        return pause_s

    def clear(self) -> None:
        self.count = 0


class SupervisedThread:
    """A daemon thread whose `work` runs until it returns; after an exception it is called again.

    `work` must be able to begin at its beginning at any time. `stop` ends the pauses, not the work itself: whoever
    calls it tells the work to return.
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._name = name
        self._work = work
        self._stopped = threading.Event()
        self.failures = Failures()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Restart the work no more."""
        self._stopped.set()

    def join(self, timeout_s: float) -> None:
        if self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._work()
            except BaseException as error:  # noqa: BLE001 - whatever it was, the work begins again
                self._stopped.wait(self.failures.report(self._name, error))
            else:
                return


def report_failure(thread: str, error: BaseException, *, restart_count: int, pause_s: float) -> None:
    """Say that an internal thread failed; never raises, since that would end the thread after all."""
    with suppress(Exception):
        emit(
            "internal_thread_failed",
            thread=thread,
            error_class=type(error).__name__,
            place=_place(error),
            restart_count=restart_count,
            pause_s=pause_s,
        )


def _place(error: BaseException) -> str:
    """File and line of ours that raised it, or called what did: a text may hold what a document says."""
    places: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        places.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    ours = [each for each in places if _OURS in each and not each.startswith(__file__)]
    return next(reversed(ours or places), "").rpartition(_OURS)[2]
