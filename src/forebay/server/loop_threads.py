"""Runs the blocking calls of an event loop on a few threads, and on no more of them than the calls need."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from forebay.errors import StoreClosed
from forebay.supervisor import SupervisedThread

T = TypeVar("T")
_LOOK_S: Final = 0.001
_WORK: Final = True
_END: Final = False


class LoopThreads:
    """Runs the blocking calls of an event loop on a few threads; calls that end together wake the loop once.

    A call wakes a thread only if none is at work, since a switch between threads costs more than a quick call: a thread
    that has ended a call takes the next one. While calls are slow, the loop looks every millisecond, and doubles the
    threads at work as long as more calls wait than were taken since its last look. A call whose caller has left before
    its turn is not made. The threads are daemons, and end once this object is closed or gone.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._line = _Line()
        self._threads: list[SupervisedThread] = []
        self._arrivals: _Arrivals | None = None
        self._handed_in_count = 0
        self._taken_count = 0  # at the last look
        self._look_at: asyncio.TimerHandle | None = None
        self._closed = False

    def run(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Hand in a call, in a running loop."""
        if self._closed:
            raise StoreClosed("The threads were closed.", remedy="Open them again.")
        loop = asyncio.get_running_loop()
        arrivals = self._arrivals
        if arrivals is None or arrivals.loop is not loop:
            arrivals = self._arrivals = _Arrivals(loop)
            self._look_at = None
        future: asyncio.Future[T] = loop.create_future()
        self._line.calls.append(_Call(call, future, arrivals))
        self._handed_in_count += 1
        if self._line.active_count == 0:
            self._wake_one()
        elif self._look_at is None:
            self._plan_look(loop)
        return future

    def close(self) -> None:
        """Make no call that has not begun; those that have begun end by themselves."""
        self._closed = True
        with suppress(IndexError):
            while True:
                self._line.calls.popleft().future.cancel()
        self._end_threads()

    def __del__(self) -> None:
        self._end_threads()

    def _end_threads(self) -> None:
        for _ in self._threads:
            self._line.wakes.put(_END)

    def _plan_look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._taken_count = self._handed_in_count - len(self._line.calls)
        self._look_at = loop.call_later(_LOOK_S, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Put more threads to work if they are slower than calls come; look again while calls wait."""
        self._look_at = None
        waiting_count = len(self._line.calls)
        taken_count = self._handed_in_count - waiting_count - self._taken_count
        if waiting_count and not self._closed:
            for _ in range(min(waiting_count - taken_count, self._line.active_count)):
                self._wake_one()
            self._plan_look(loop)

    def _wake_one(self) -> None:
        count = self._line.begin(self._most)
        if count > len(self._threads):
            # The thread knows the line alone: it must not keep this object alive.
            thread = SupervisedThread(f"{self._name}-{len(self._threads)}", partial(_work, self._line))
            self._threads.append(thread)
            thread.start()
        if count:
            self._line.wakes.put(_WORK)


class _Call(NamedTuple):
    make: Callable[[], Any]
    future: asyncio.Future[Any]
    arrivals: _Arrivals


class _Line:
    """Calls that wait for a thread; `wakes` puts a thread to work, or ends it."""

    def __init__(self) -> None:
        self.calls: deque[_Call] = deque()
        self.wakes: SimpleQueue[bool] = SimpleQueue()
        self.active_count = 0
        self._lock = threading.Lock()

    def begin(self, most: int) -> int:
        """Return how many threads are at work with one more, or 0 if there may be no more."""
        with self._lock:
            if self.active_count >= most:
                return 0
            self.active_count += 1
            return self.active_count

    def rest(self) -> bool:
        """Return whether nothing waits, so that the calling thread is at work no longer."""
        with self._lock:
            if self.calls:
                return False
            self.active_count -= 1
            return True


def _work(line: _Line) -> None:
    while line.wakes.get():
        resting = False
        while not resting:
            try:
                call = line.calls.popleft()
            except IndexError:
                resting = line.rest()
            else:
                _make(call)
                # While it waits for the next call it must keep nothing of this one alive.
                del call


def _make(call: _Call) -> None:
    if call.future.done():
        call.arrivals.add(call.future, None, None)
        return
    answer: object = None
    error: BaseException | None = None
    try:
        answer = call.make()
    except StopIteration as raised:
        # A future refuses it; a coroutine that raised it would raise the same.
        error = RuntimeError("The call raised StopIteration.")
        error.__cause__ = raised
    except BaseException as raised:  # noqa: BLE001 - whatever it was, the caller must hear of it
        error = raised
    call.arrivals.add(call.future, answer, error)
    # An error holds this frame, which must not hold the error.
    del call, answer, error


class _Arrivals:
    """Answers on their way to a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._answers: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._is_woken = False

    def add(self, future: asyncio.Future[Any], answer: object, error: BaseException | None) -> None:
        """Called by a thread."""
        self._answers.append((future, answer, error))
        if not self._is_woken:
            self._is_woken = True
            # Nothing waits in a loop that is closed.
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # First, so that whoever adds an answer from now on wakes the loop again.
        self._is_woken = False
        while self._answers:
            future, answer, error = self._answers.popleft()
            if future.done():
                continue
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)
