"""Ends what runs longer than it may, with one timer for all: most end long before it would be due."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import Protocol


class Runs(Protocol):
    """`ends_at` is of the loop's clock, and infinite while that stands still."""

    ends_at: float

    def overdue_now(self) -> None:
        """Its time is over."""


class Watch:
    """`due_at` is when it looks next: who ends no sooner than that need not call `until`."""

    def __init__(self, running: Callable[[], Iterable[Runs]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._running = running
        self._timer: asyncio.TimerHandle | None = None
        self.due_at = math.inf

    def until(self, ends_at: float) -> None:
        """Somebody is to be ended then, if they still run."""
        if ends_at < self.due_at:
            self.close()
            self._timer = self._loop.call_at(ends_at, self._look)
            self.due_at = ends_at

    def _look(self) -> None:
        self.close()
        now = self._loop.time()
        for each in list(self._running()):
            if each.ends_at <= now:
                each.overdue_now()
        left = [each.ends_at for each in self._running() if each.ends_at > now]
        if left:
            self.until(min(left))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.due_at = math.inf
