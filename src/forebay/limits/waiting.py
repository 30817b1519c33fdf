"""One caller that waits for a slot, or for leave to use one late: a thread on a lock, or a task on a future."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from forebay.errors import Conflict
from forebay.supervisor import report_failure

if TYPE_CHECKING:
    import asyncio

    from forebay.limits.call import Call
    from forebay.model.limit_record import Wait

Result: TypeAlias = "Call | Exception | None"


class Waiter:
    """Resolved once, from any thread, with what was granted or what went wrong; None is for neither.

    One that tries `once` is resolved by the first answer, whatever it is.
    """

    __slots__ = ("_done", "_future", "_lock", "loop", "once", "result", "wait_seen")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, *, once: bool = False) -> None:
        self.loop = loop
        self.once = once
        self.result: Result = None
        self.wait_seen: Wait | None = None  # why it waited, when it left the line without a slot
        self._done = False
        self._lock: threading.Lock | None = None
        self._future: asyncio.Future[None] | None = None
        if loop is None:
            self._lock = threading.Lock()
            self._lock.acquire()
        else:
            self._future = loop.create_future()

    @property
    def done(self) -> bool:
        return self._done

    def settle(self, result: Result) -> None:
        """Say what came of it; the waiter itself learns of it by `wake`."""
        self.result = result
        self._done = True

    def wake(self) -> None:
        """In the waiter's own loop, if it has one; twice is harmless."""
        if self._lock is not None:
            with suppress(RuntimeError):  # woken before, by whoever was faster
                self._lock.release()
        elif self._future is not None and not self._future.done():
            self._future.set_result(None)

    def wait(self, timeout_s: float) -> None:
        if self._lock is not None and not self._done:
            self._lock.acquire(timeout=max(0.0, min(timeout_s, threading.TIMEOUT_MAX)))

    async def await_(self, timeout_s: float) -> None:
        if self.loop is None or self._future is None or self._done:
            return
        timer = self.loop.call_later(max(0.0, timeout_s), self.wake)
        try:
            await self._future
        finally:
            timer.cancel()


def refuse_reentry(lock: threading.RLock) -> None:
    """A signal handler runs between any two lines of its thread: also where that has the limiter half changed."""
    if lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001 - as Python's own conditions ask
        raise Conflict(
            "A slot was asked for by a signal handler that has interrupted the limiter itself.",
            remedy="Have the handler set a flag, and take the slot where the program looks at it.",
        )


def wake_all(waiters: Iterable[Waiter]) -> None:
    """Those of one loop by one call into it: a batch costs as much as one."""
    # A program that has not loaded it, which takes longer than all of ours, has no loops.
    # One that another thread is just loading has none yet either.
    running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    here = running() if running else None
    by_loop: dict[asyncio.AbstractEventLoop, list[Waiter]] = defaultdict(list)
    for waiter in waiters:
        if waiter.loop is None or waiter.loop is here:
            _wake([waiter])
        else:
            by_loop[waiter.loop].append(waiter)
    for loop, theirs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_wake, theirs)
        except RuntimeError:  # it was closed, and nobody waits there any more
            continue


def _wake(waiters: list[Waiter]) -> None:
    for waiter in waiters:
        try:
            waiter.wake()
        except Exception as error:  # noqa: BLE001 - one caller's mistake must not keep the others asleep
            report_failure(threading.current_thread().name, error, restart_count=0, pause_s=0.0)
