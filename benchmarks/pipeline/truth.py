"""What bound the next call at an instant, worked out from the provider's calls alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from benchmarks.pipeline.seen import Call
from benchmarks.pipeline.shapes import Shape

IN_FLIGHT = "in flight"
WINDOW = "window"
COOLDOWN = "cool-down"
RAMP = "ramp"
_JITTER = 1.2


class Truth:
    """`hint_s` is how long each 429 told to stay away; a cool-down may be longer than that by its jitter."""

    def __init__(self, shape: Shape, calls: Sequence[Call], hint_s: float = 0.0) -> None:
        self._shape = shape
        self._arrived = sorted(call.arrived for call in calls)
        self._ended = sorted(call.ended for call in calls)
        self._hint_s = hint_s
        self._refused = [call.ended for call in calls if call.refused]
        full = min(shape.in_flight, shape.n)
        self._ramp_s = float((full - 1).bit_length())
        self.moves = sorted({*self._arrived, *self._ended, *(at + shape.wide_s for at in self._arrived)})

    def at(self, instant: float) -> set[str]:
        """What bound surely."""
        found = set()
        if self._open(instant) >= self._shape.in_flight:
            found.add(IN_FLIGHT)
        if self._in_window(instant) >= self._shape.n:
            found.add(WINDOW)
        if any(ended <= instant < ended + self._hint_s for ended in self._refused):
            found.add(COOLDOWN)
        return found

    def may_at(self, instant: float) -> set[str]:
        """What may have bound besides, by what is known of jitter and of the way back from a cool-down."""
        found = set()
        longest_s = self._hint_s * _JITTER
        if any(ended <= instant < ended + longest_s for ended in self._refused):
            found.add(COOLDOWN)
        if any(ended + self._hint_s <= instant < ended + longest_s + self._ramp_s + 1.0 for ended in self._refused):
            found.add(RAMP)
        return found

    def instants(self, began: float, ended: float) -> list[float]:
        """All between which nothing changes."""
        first, last = bisect_right(self.moves, began), bisect_right(self.moves, ended)
        return [began, *self.moves[first:last], ended]

    def _open(self, instant: float) -> int:
        return bisect_right(self._arrived, instant) - bisect_right(self._ended, instant)

    def _in_window(self, instant: float) -> int:
        return bisect_right(self._arrived, instant) - bisect_right(self._arrived, instant - self._shape.wide_s)
