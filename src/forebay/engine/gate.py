"""Lets so many async attempts run at once; the others wait, first come, first served."""

from __future__ import annotations

from collections import deque
from typing import Protocol


class Starts(Protocol):
    def go(self) -> None: ...


class Gate:
    def __init__(self, size: int) -> None:
        self._size = size
        self._running = 0
        self._waiting: deque[Starts] = deque()

    @property
    def full(self) -> bool:
        return self._running >= self._size

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def add(self, attempt: Starts, *, first: bool = False) -> None:
        if first:
            self._waiting.appendleft(attempt)
        else:
            self._waiting.append(attempt)
        self._let_in()

    def take_back(self, attempt: Starts) -> bool:
        """Whether it had not started yet; then it will not."""
        try:
            self._waiting.remove(attempt)
        except ValueError:
            return False
        return True

    def freed(self) -> None:
        self._running -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._running < self._size:
            self._running += 1
            self._waiting.popleft().go()
