"""Decides how many attempts may wait for a place to run with their slots in hand."""

from __future__ import annotations

import math

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 5.0
_MOMENT_S = 0.01


class Holding:
    """The next to run, if that is soon.

    Where tasks are quick and slots come at once, this saves the way to the limit: as many as find a place within a
    moment. Where somebody else waits for slots it is one, and where tasks are long that is tried ever more rarely: no
    slot stands idle, and the kind does not wait for ever behind others.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 1
        self._again_at = -math.inf
        self._pause_s = _FIRST_PAUSE_S

    def allowed(self, now: float) -> int:
        return self._count if now >= self._again_at else 0

    def in_vain(self, now: float) -> None:
        """One gave its slot back because no place came free in time."""
        self._count = 1
        self._again_at = now + self._pause_s
        self._pause_s = min(_LONGEST_PAUSE_S, 2 * self._pause_s)

    def used(self, wait_s: float) -> None:
        """One found its place after so long."""
        self._pause_s = _FIRST_PAUSE_S
        self._count = min(self._most, self._count + 1) if wait_s <= _MOMENT_S else max(1, self._count - 1)

    def granted(self, wait_s: float) -> None:
        """A slot came after so long."""
        if wait_s > _MOMENT_S:
            self._count = max(1, self._count // 2)
