"""Sends whole steps to a store's own thread, in groups that commit together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from forebay.errors import StoreClosed
from forebay.supervisor import SupervisedThread

Resource = TypeVar("Resource")
T = TypeVar("T")
MAX_GROUP = 128


class Answer:
    """The future of a call that runs where it was made: nobody waits for it or cancels it, so it needs no lock."""

    __slots__ = ("_done", "_error", "_value")

    def __init__(self) -> None:
        self._value: Any = None
        self._error: BaseException | None = None
        self._done = False

    def set_running_or_notify_cancel(self) -> bool:
        return True

    def set_result(self, value: object) -> None:
        self._value, self._done = value, True

    def set_exception(self, error: BaseException) -> None:
        self._error, self._done = error, True

    def done(self) -> bool:
        return self._done

    def result(self) -> Any:  # noqa: ANN401 - the step's own
        if self._error is not None:
            raise self._error
        return self._value


class Call(Generic[Resource]):
    """One step that waits to be run, and where its answer goes."""

    __slots__ = ("future", "step")

    def __init__(self, step: Callable[[Resource], Any], future: Future[Any] | Answer) -> None:
        self.step = step
        self.future = future


class StoreThread(Generic[Resource]):
    """Runs steps one group at a time; those that arrive while a group runs form the next one, on the thread.

    A call that finds nothing under way runs at once where it was made: two switches between threads are worth a
    tenth of a commit. `run` gets each group and answers every call in it. The thread is a daemon: a program that
    ends does not hang on it, and `close` waits for what was handed in before.
    """

    def __init__(self, name: str, run: Callable[[Sequence[Call[Resource]]], None]) -> None:
        self._run = run
        self._queue: SimpleQueue[Call[Resource] | None] = SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._runs_on: int | None = None
        self._group: list[Call[Resource] | None] = []
        self._ended = False
        self._thread = SupervisedThread(name, self._work)
        self._thread.start()

    def submit(self, step: Callable[[Resource], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise StoreClosed("The store was closed.", remedy="Open it again.")
            self._queue.put(Call(step, future))
        return future

    def call(self, step: Callable[[Resource], T]) -> T:
        if self._queue.empty() and self._turn.acquire(blocking=False):
            try:
                if not self._closed:
                    answer = Answer()
                    self._run_group([Call(step, answer)])
                    value: T = answer.result()
                    return value
            finally:
                self._turn.release()
        return self.submit(step).result()

    def close(self, timeout_s: float = 5.0) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join(timeout_s)
        # A step that closes its own store would wait for itself.
        if self._runs_on != threading.get_ident() and self._turn.acquire(timeout=timeout_s):
            self._turn.release()

    def _work(self) -> None:
        try:
            while not self._ended:
                self._fill_group()
                self._ended = self._group[-1] is None
                calls = [call for call in self._group if call is not None]
                if calls:
                    with self._turn:
                        self._run_group(calls)
                self._group = []
        except BaseException as error:
            self._ended = self._ended or None in self._group
            _fail([call for call in self._group if call is not None], error)
            self._group = []
            raise

    def _fill_group(self) -> None:
        """Wait for a call, and take along those that wait behind it; None is the end."""
        self._group.append(self._queue.get())
        with suppress(Empty):
            while self._group[-1] is not None and len(self._group) < MAX_GROUP:
                self._group.append(self._queue.get_nowait())

    def _run_group(self, group: Sequence[Call[Resource]]) -> None:
        taken = [call for call in group if call.future.set_running_or_notify_cancel()]
        if not taken:
            return
        self._runs_on = threading.get_ident()
        try:
            self._run(taken)
        except BaseException as error:  # noqa: BLE001 - whatever it was, the callers must hear of it
            _fail(taken, error)
        finally:
            self._runs_on = None


def _fail(calls: Sequence[Call[Resource]], error: BaseException) -> None:
    """Tell those who wait for an answer that there is none."""
    for call in calls:
        if not call.future.done():
            call.future.set_exception(error)
