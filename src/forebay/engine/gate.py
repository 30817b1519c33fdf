"""Lets so many async attempts run at once; the others wait, first come, first served, who holds a slot before all."""

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
        self._first: deque[Starts] = deque()
        self._waiting: deque[Starts] = deque()
        self.watch = Watch(lambda: self._running)

    @property
    def full(self) -> bool:
        return len(self._running) >= self._size

    @property
    def waits(self) -> bool:
        return bool(self._first or self._waiting)

    def add(self, attempt: Starts, *, first: bool = False) -> None:
        if not self.full:  # then nobody waits
            self._running.add(attempt)
            attempt.go()
        else:
            (self._first if first else self._waiting).append(attempt)

    def take_back(self, attempt: Starts) -> bool:
        """Whether it had not started yet; then it will not."""
        for line in (self._first, self._waiting):
            if attempt in line:
                line.remove(attempt)
                return True
        return False

    def freed(self, attempt: Starts) -> None:
        self._running.discard(attempt)
        if self.waits and not self.full:
            following = (self._first or self._waiting).popleft()
            self._running.add(following)
            following.go()
