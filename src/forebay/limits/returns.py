"""Gives calls back before their block is left, where the process may end before its next request."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from forebay.clock import steady
from forebay.limits.waiting import Waiter, wake_all
from forebay.supervisor import SupervisedThread, report_failure

if TYPE_CHECKING:
    import asyncio

    from forebay.limits.desk import Desk
    from forebay.limits.line import Line
    from forebay.model.limit_record import Ask

THREAD = "forebay-limits-returns"
PATIENCE_S = 2.0
"""How long a caller waits at most for its return to be stored; after that the next request says it."""
_MAIN = threading.main_thread().ident
_forked = False


class _Return(NamedTuple):
    desk: Desk
    line: Line
    ask: Ask
    waiter: Waiter


class Returns:
    """One thread, begun at first need, stores what the main thread or an event loop gives back.

    A store that only has to send (Redis) is used from any thread. Others wait for a commit, which an event loop must
    not, and in the main thread the handler of a signal could raise in the middle of it.
    """

    def __init__(self, ask: Callable[[Desk, Line, Ask], None]) -> None:
        self._ask = ask
        self._queue: SimpleQueue[_Return | None] = SimpleQueue()
        self._lock = threading.RLock()
        self._thread: SupervisedThread | None = None
        self._stopped = False

    def give_back(
        self, desk: Desk, line: Line, *, loop: asyncio.AbstractEventLoop | None = None, may_wait: bool = True
    ) -> Waiter | None:
        """Give back at once what cannot wait for the next request. Return what to wait for, if anything."""
        with line.lock:
            ask = line.returning(steady(), anyhow=_forked)
        if ask is None or line.store.send_back(line.limit, ask):
            return None
        if line.store.instant or (loop is None and threading.get_ident() != _MAIN and not in_loop()):
            self._store(desk, line, ask)
            return None
        if not may_wait or not self._begin():
            with line.lock:
                line.say_again(ask)
            return None
        waiter = Waiter(loop)
        self._queue.put(_Return(desk, line, ask, waiter))
        return waiter

    def _begin(self) -> bool:
        """Whether the thread runs."""
        with self._lock:
            if self._thread is None and not self._stopped:
                thread = SupervisedThread(THREAD, self._run)
                thread.start()
                self._thread = thread
            return not self._stopped

    def _run(self) -> None:
        while (each := self._queue.get()) is not None:
            try:
                self._store(each.desk, each.line, each.ask)
            finally:
                each.waiter.settle(None)
                wake_all([each.waiter])

    def _store(self, desk: Desk, line: Line, ask: Ask) -> None:
        try:
            self._ask(desk, line, ask)
        except Exception as error:  # noqa: BLE001 - the next request says the same again, and tells those who wait
            report_failure(threading.current_thread().name, error, restart_count=0, pause_s=0.0)
        finally:
            with line.lock:
                line.say_again(ask)

    def stop(self) -> None:
        """Have the thread end when it has stored what is left."""
        with self._lock:
            self._stopped = True
            if self._thread is not None:
                self._thread.stop()
        self._queue.put(None)

    def join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)


def is_forked() -> bool:
    """Return whether this process was forked, and so may end by `os._exit` at any time."""
    return _forked


def in_loop() -> bool:
    """Whether this thread runs an event loop just now."""
    running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    return running is not None and running() is not None


def _after_fork_in_child() -> None:
    global _forked  # noqa: PLW0603 - of the process, as the fork is
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
