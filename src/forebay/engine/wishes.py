"""Stands in a limit's line for so many slots, no more and no fewer, as the number that is needed changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from forebay.clock import steady
from forebay.limits.slot import Slot
from forebay.limits.standing import Stand, Wish

Units = tuple[tuple[str, int], ...]
"""What a call takes of each unit, in a form that can be counted."""


def units_key(units: Mapping[str, int]) -> Units:
    return tuple(sorted(units.items()))


class Wishes:
    """Slots are told apart by their units only."""

    def __init__(
        self, stand: Stand, granted: Callable[[Slot, Units, float], None], refused: Callable[[Exception, Units], None]
    ) -> None:
        """`granted` gets each slot, and how long it was wished for."""
        self._stand = stand
        self._granted = granted
        self._refused = refused
        self._standing: dict[Units, list[Wish]] = {}

    def stand_for(self, needed: Counter[Units], *, front: bool = False) -> None:
        """New ones join at the end of the line, or at its front."""
        for units in {*self._standing, *needed}:
            wishes = self._standing.setdefault(units, [])
            while len(wishes) > needed[units]:
                self._stand.leave(wishes.pop())
            while len(wishes) < needed[units]:
                wishes.append(self._stand.join(dict(units), self._told, front=front))
            if not wishes:
                del self._standing[units]

    def _told(self, wish: Wish) -> None:
        units = units_key(wish.units)
        wishes = self._standing.get(units, [])
        if wish not in wishes:
            return  # it has left, and what it was granted went back
        wishes.remove(wish)
        if isinstance(wish.result, Exception):
            self._refused(wish.result, units)
        else:
            self._granted(self._stand.slot(wish), units, steady() - wish.since)
