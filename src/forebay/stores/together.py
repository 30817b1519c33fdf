"""Stores jobs that several threads submit at once in one transaction."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence

from forebay.errors import StoreError
from forebay.model.exchange import Submitted
from forebay.model.job import NewJob

_MOST = 64


class Together:
    """Jobs that come while others are being stored wait, and are stored together next, by the thread of the first."""

    def __init__(self, submit: Callable[[Sequence[NewJob]], list[Submitted]]) -> None:
        self._submit = submit
        self._line = _Line()

    def submit(self, new: NewJob) -> Submitted:
        if self._line.process_id != os.getpid():
            # The thread that stores for those in the line has stayed in the parent.
            self._line = _Line()
        line, own = self._line, _Waiting(new)
        if not line.enter(own):
            own.turn.acquire()
            if own.answer is not None:
                return own.answer
            if own.error is not None:
                raise own.error
        if own.is_alone:
            return self._submit([new])[0]
        group = line.take(own)
        try:
            self._store(group)
        finally:
            line.pass_on()
            for each in group[1:]:
                each.turn.release()
        if own.error is not None:
            raise own.error
        return own.answer or self._submit([new])[0]

    def _store(self, group: Sequence[_Waiting]) -> None:
        """Store a group; what may be wrong with one of its jobs must not fail the others: each tries alone then."""
        try:
            for each, answer in zip(group, self._submit([each.new for each in group]), strict=True):
                each.answer = answer
        except StoreError as error:
            for each in group:
                each.error = error
        except Exception as error:  # noqa: BLE001 - whoever handed the job in gets it
            if len(group) == 1:
                group[0].error = error
        finally:
            for each in group:
                each.is_alone = True


class _Waiting:
    """A job, and what became of it; `is_alone` once a group with it has failed."""

    def __init__(self, new: NewJob) -> None:
        self.new = new
        self.answer: Submitted | None = None
        self.error: Exception | None = None
        self.is_alone = False
        self.turn = threading.Lock()
        self.turn.acquire()


class _Line:
    def __init__(self) -> None:
        self.process_id = os.getpid()
        self._lock = threading.Lock()
        self._is_busy = False
        self._waiting: deque[_Waiting] = deque()

    def enter(self, own: _Waiting) -> bool:
        """Whether nobody stores, so that the caller does."""
        with self._lock:
            if self._is_busy:
                self._waiting.append(own)
                return False
            self._is_busy = True
            return True

    def take(self, own: _Waiting) -> list[_Waiting]:
        with self._lock:
            count = min(_MOST - 1, len(self._waiting))
            return [own, *(self._waiting.popleft() for _ in range(count))]

    def pass_on(self) -> None:
        """Let the first that waits store next."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().turn.release()
            else:
                self._is_busy = False
