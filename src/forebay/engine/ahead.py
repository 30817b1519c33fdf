"""Decides how many claimed tasks of a limited kind may wait in hand for their slots."""

from __future__ import annotations

import math

STALL_S = 1.0
_SOON_S = 0.02
_LONG_S = 0.1


class Ahead:
    """Enough that no slot waits for a claim, and none at all while slots come so rarely that a claim can wait for them.

    None either before the first slot has come, or long after the last one: the limit may be paused by now, and then a
    claim would only keep the task from showing what it waits for.

    A slot that found nothing in hand asks for one more, and so does one that took the last where slots come quickly:
    a claim then brings several. A task that waited long asks for one less.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._granted_at = -math.inf
        self._count = 0

    def count(self, now: float) -> int:
        return self._count if now - self._granted_at <= STALL_S else 0

    def granted(self, now: float, *, idle: bool, last: bool = False) -> None:
        """A slot came; `idle`: nothing was there to use it; `last`: nothing is left for the next."""
        since_s = now - self._granted_at
        if (idle and since_s <= STALL_S) or (last and since_s <= _SOON_S):
            self._count = min(self._most, self._count + 1)
        self._granted_at = now

    def waited(self, wait_s: float) -> None:
        """A task got its slot after so long in hand."""
        if wait_s > _LONG_S and self._count > 1:
            self._count -= 1

    def stalled(self) -> None:
        """Tasks were handed back because no slot came."""
        self._count = 0
