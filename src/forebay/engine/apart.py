"""Keeps the lanes of a kind from starving each other: few places for a lane, and for a tenant as many as it leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from forebay.engine.registry import Kind
from forebay.model.exchange import Want

_SLOW_S = 2.0


class Apart:
    """The lanes of one kind that runs in places of its own.

    A lane whose last call was slow, or whose present one is, takes one place at a time, and all such lanes together
    take half of the places: those that answer always find one. Lanes of one group take turns at the group's places.

    A tenant takes one place more only while more are free than it holds, of all places and of those for slow lanes: a
    tenant alone gets half of them, a second one half of the rest, and the next one still finds some.
    """

    def __init__(self, kind: Kind, places: int, per_lane: int, per_group: int) -> None:
        self._kind = kind.name
        self._places = places
        self._per_lane = per_lane
        self._per_group = per_group
        self._held: Counter[str] = Counter()
        self._slow: dict[str, None] = {}
        self._ready: tuple[str, ...] = ()
        self._turn = 0

    def seen(self, lanes: Mapping[str, Sequence[str]]) -> None:
        """The lanes that have work, as an exchange told."""
        self._ready = tuple(lanes.get(self._kind, ()))

    def took(self, lane: str) -> None:
        self._held[lane] += 1

    def freed(self, lane: str, run_s: float) -> None:
        self._held[lane] -= 1
        if not self._held[lane]:
            del self._held[lane]
        if run_s < _SLOW_S:
            self._slow.pop(lane, None)
        else:
            self._is_slow(lane)

    def runs(self, lane: str, run_s: float) -> None:
        """One of this lane has been running for so long, and goes on."""
        if run_s >= _SLOW_S:
            self._is_slow(lane)

    def _is_slow(self, lane: str) -> None:
        self._slow.setdefault(lane)
        while len(self._slow) > 10 * self._places:
            del self._slow[next(iter(self._slow))]

    @property
    def free(self) -> int:
        return self._places - self._held.total()

    @property
    def has_room(self) -> bool:
        """Whether some of what is known to be ready may be claimed."""
        return next(self._shares(), None) is not None

    def wants(self, grace_s: float) -> list[Want]:
        """So many of each lane that has work; a look at the others, who may have some by now."""
        self._turn += 1
        lanes = [Want(self._kind, count, lane, grace_s) for lane, count in self._shares()]
        return [Want(self._kind, 0, grace_s=grace_s), *lanes]

    def _shares(self) -> Iterator[tuple[str, int]]:
        free = self.free
        slow_free = self._places // 2 - sum(n for lane, n in self._held.items() if lane in self._slow)
        in_group, of_tenant, slow_of_tenant = Counter[str](), Counter[str](), Counter[str]()
        for lane, count in self._held.items():
            in_group[_group(lane)] += count
            of_tenant[_tenant(lane)] += count
            slow_of_tenant[_tenant(lane)] += count if lane in self._slow else 0
        for lane in self._in_turn(of_tenant):
            tenant, slow = _tenant(lane), lane in self._slow
            room = min(_share(free, of_tenant[tenant]), self._per_group - in_group[_group(lane)])
            if slow:
                room = min(room, _share(slow_free, slow_of_tenant[tenant]), 1 - self._held[lane])
            else:
                room = min(room, self._per_lane - self._held[lane])
            if room > 0:
                in_group[_group(lane)] += room
                of_tenant[tenant] += room
                free -= room
                if slow:
                    slow_of_tenant[tenant] += room
                    slow_free -= room
                yield lane, room

    def _in_turn(self, of_tenant: Counter[str]) -> list[str]:
        """Quick lanes before slow ones, and before others those of tenants that hold less."""
        at = self._turn % len(self._ready) if self._ready else 0
        rotated = (*self._ready[at:], *self._ready[:at])
        return sorted(rotated, key=lambda lane: (lane in self._slow, of_tenant[_tenant(lane)]))


def _share(free: int, held: int) -> int:
    """How many more of the free places somebody may take who holds some: each while more are free than it holds."""
    return (free - held + 1) // 2


def _group(lane: str) -> str:
    return lane.rpartition(".")[0] or lane


def _tenant(lane: str) -> str:
    return lane.rpartition(".")[2]
