"""Lets so many async attempts run at once; the others wait, first come, first served."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from forebay.engine.watch import Runs, Watch


class Starts(Runs, Protocol):
    def go(self) -> None: ...


class Gate:
    """Made in a running event loop."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._running: set[Starts] = set()
        self._waiting: deque[Starts] = deque()
        self.watch = Watch(lambda: self._running)

    @property
    def full(self) -> bool:
        return len(self._running) >= self._size

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def add(self, attempt: Starts, *, first: bool = False) -> None:
        if len(self._running) < self._size:  # then nobody waits
            self._running.add(attempt)
            attempt.go()
        elif first:
            self._waiting.appendleft(attempt)
        else:
            self._waiting.append(attempt)

    def take_back(self, attempt: Starts) -> bool:
        """Whether it had not started yet; then it will not."""
        try:
            self._waiting.remove(attempt)
        except ValueError:
            return False
        return True

    def freed(self, attempt: Starts) -> None:
        self._running.discard(attempt)
        if self._waiting and len(self._running) < self._size:
            following = self._waiting.popleft()
            self._running.add(following)
            following.go()
