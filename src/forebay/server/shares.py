"""Divides places between owners, so that another owner finds one however many the others hold."""

from __future__ import annotations

from collections import Counter
from typing import Final

PER_FREE: Final = 3.0
"""An owner may hold so many times as many places as are free: alone three quarters, and a newcomer always finds one."""


class Shares:
    """Counts who holds how many of `most` places; the owner None has no share and may hold all."""

    def __init__(self, most: int, per_free: float = PER_FREE) -> None:
        self.most = most
        self._per_free = per_free
        self._held: Counter[str | None] = Counter()
        self._total = 0

    def held(self, owner: str | None) -> int:
        return self._held[owner]

    def has_place(self, owner: str | None) -> bool:
        free = self.most - self._total
        return free > 0 and (owner is None or self._held[owner] < self._per_free * free)

    def take(self, owner: str | None) -> bool:
        """Take one place. False if the owner has its share, or if no place is free."""
        if not self.has_place(owner):
            return False
        self._held[owner] += 1
        self._total += 1
        return True

    def give_back(self, owner: str | None) -> None:
        self._total -= 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
