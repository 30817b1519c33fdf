"""Decides how long to wait for others that use the same file: briefly at first, and never longer than a bound."""

from __future__ import annotations

import random
import time

_FIRST_TRIES = 10
_FIRST_PAUSE_S = 0.0001
_LONGEST_PAUSE_S = 0.005
_HURRIED_PAUSE_S = 0.0005


class Patience:
    """What SQLite asks whenever the file is busy; its own steps of 1, 2, 5, 10 ms are long for a write of 0.1 ms."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = 0.0
        self._longest_s = _LONGEST_PAUSE_S

    def begin(self) -> None:
        self._until = time.monotonic() + self._seconds
        self._longest_s = _LONGEST_PAUSE_S

    def hurry(self) -> None:
        """Ask more often than others do, and so be served before them: for what a person waits for."""
        self._longest_s = _HURRIED_PAUSE_S

    def __call__(self, tries: int) -> bool:
        """Pause; whether to try once more."""
        if time.monotonic() >= self._until:
            return False
        pause_s = _FIRST_PAUSE_S
        if tries >= _FIRST_TRIES:
            longest_s = min(self._longest_s, _FIRST_PAUSE_S * 2 ** min(tries - _FIRST_TRIES + 1, 10))
            pause_s = random.uniform(_FIRST_PAUSE_S, longest_s)  # noqa: S311 - spreads processes
        time.sleep(pause_s)
        return True
