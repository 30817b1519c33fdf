"""Stores jobs that several threads submit at once in one transaction."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

from forebay.errors import StoreError
from forebay.model.exchange import Submitted
from forebay.model.job import NewJob
from forebay.stores.groups import count_group, weigh

_MOST_JOBS = 64


class Together:
    """Jobs that come while others are being stored wait, and are stored together next, by the thread of the first."""

    def __init__(self, submit: Callable[[Sequence[NewJob]], list[Submitted]], most_tasks: int) -> None:
        self._submit = submit
        self._most_tasks = most_tasks
        self._line = _Line()

    def submit(self, new: NewJob) -> Submitted:
        if self._line.process_id != os.getpid():
            # The thread that stores for those in the line has stayed in the parent.
            self._line = _Line()
        line, own = self._line, _Waiting(new)
        try:
            try:
                if not line.enter(own):
                    own.turn.acquire()
                if not own.is_alone:
                    self._store(line.take(own, self._most_tasks))
            finally:
                line.leave(own)
        except BaseException:
            # A signal handler may have raised while this thread was leaving.
            line.leave(own)
            raise
        if own.error is not None:
            raise own.error
        return own.answer or self._submit([new])[0]

    def _store(self, group: Sequence[_Waiting]) -> None:
        """Store a group; what may be wrong with one of its jobs must not fail the others: each tries alone then."""
        # By id: processes that store the same jobs in different orders would wait for each other.
        by_id = sorted(group, key=lambda each: each.new.id)
        try:
            for each, answer in zip(by_id, self._submit([each.new for each in by_id]), strict=True):
                each.answer = answer
        except StoreError as error:
            for each in group:
                each.error = error
        except Exception as error:  # noqa: BLE001 - whoever handed the job in gets it
            if len(group) == 1:
                group[0].error = error


class _Waiting:
    """A job, and what became of it; `is_alone` once a group with it has been tried by another thread.

    `group`: those that were taken out of the line to be stored with it.
    """

    def __init__(self, new: NewJob) -> None:
        self.new = new
        self.weight = weigh(new)
        self.answer: Submitted | None = None
        self.error: Exception | None = None
        self.is_alone = False
        self.group: list[_Waiting] = []
        self.turn = threading.Lock()
        self.turn.acquire()

    def wake(self) -> None:
        """Also harmless a second time: its thread waits only once."""
        if self.turn.locked():
            self.turn.release()


class _Line:
    """The caller that stores, and those that wait. `leave` puts right whatever an interruption at any step leaves."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self._lock = threading.Lock()
        self._storing: _Waiting | None = None
        self._waiting: list[_Waiting] = []

    def enter(self, own: _Waiting) -> bool:
        """Return whether nobody stores, so that the caller does."""
        with self._lock:
            if self._storing is None:
                self._storing = own
                return True
            self._waiting.append(own)
            return False

    def take(self, own: _Waiting, most_tasks: int) -> list[_Waiting]:
        """Return the caller's job and those that are stored with it, which wait in the line no more."""
        with self._lock:
            first = self._waiting[: _MOST_JOBS - 1]
            count = count_group([own.weight, *(each.weight for each in first)], most_tasks) - 1
            own.group, self._waiting = first[:count], self._waiting[count:]
            return [own, *own.group]

    def leave(self, own: _Waiting) -> None:
        """Wake those that were stored with the caller's job, and let the first that waits store next."""
        with self._lock:
            for each in own.group:
                each.is_alone = True
                each.wake()
            if self._storing is own:
                following = self._waiting[0] if self._waiting else None
                self._storing, self._waiting = following, self._waiting[1:]
            elif own in self._waiting:
                self._waiting.remove(own)
            if self._storing is not None:
                self._storing.wake()
