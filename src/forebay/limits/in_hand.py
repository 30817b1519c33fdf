"""Slots that a process was granted before their callers came, and how many it asks for."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from forebay.limits.call import Call

HOLD_S = 0.01
"""How long slots in hand wait for their callers; a caller who comes later than that after the last one is not quick."""
_MOST = 31
_QUICK = 3
"""How many requests in a row have to be quick before one asks for a slot more than there are callers."""


class Kind(NamedTuple):
    """What a call has to be like to use a slot in hand."""

    key: str
    units: dict[str, int]
    label: str


class SlotsInHand:
    """Not safe by itself: hold the line's lock. All slots are of one kind, that of the last request.

    Where callers of a process come quickly one after the other, each request asks for twice as many as the one before.
    Those that nobody used go back, and the next request asks for a quarter.
    """

    def __init__(self) -> None:
        self._calls: deque[Call] = deque()
        self.kind: Kind | None = None
        self._pace = 0
        self._granted_at = float("-inf")

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def until(self) -> float:
        """Until when they wait for callers."""
        return self._granted_at + HOLD_S

    def wanted(self, kind: Kind, now: float) -> int:
        """Return how many to ask for in a request for callers of this kind."""
        if kind == self.kind and now < self.until:
            self._pace += 1
        else:
            self.kind, self._pace = kind, 0
        return min(_MOST, (1 << max(0, self._pace - _QUICK)) - 1)

    def granted(self, now: float) -> None:
        """Callers have just got their slots."""
        if not self._calls:
            self._granted_at = now

    def put(self, call: Call) -> None:
        self._calls.append(call)

    def take(self, key: str, units: dict[str, int], label: str) -> Call | None:
        """Return one of this kind, if there is any."""
        return self._calls.popleft() if self._calls and (key, units, label) == self.kind else None

    def expired(self, now: float) -> list[Call]:
        """Return what has waited for too long, and ask for less from now on."""
        if not self._calls or now < self.until:
            return []
        self._pace -= 2
        return self.clear()

    def clear(self) -> list[Call]:
        """Return all of them: none is in hand any more."""
        calls = [*self._calls]
        self._calls.clear()
        return calls
