"""Decides how many tasks of which kinds a worker asks for next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from forebay.engine.apart import Apart
from forebay.engine.registry import Kind
from forebay.model.exchange import Want

_AHEAD_S = 0.02  # about the time an exchange takes: what starts within it need not wait for the next one
_WEIGHT = 0.1
_UNKNOWN_S = 1.0
_LEAST_BATCH = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a worker takes on, and how patient it is."""

    concurrency: int = 10
    processes: int = 2
    claims_per_exchange: int = 250
    lease_s: float = 15.0
    poll_s: float = 5.0
    drain_grace_s: float = 30.0
    attempt_grace_s: float = 30.0

    @property
    def batch(self) -> int:
        """Tasks to claim at most in one exchange: where more run at once, it is worth more of them."""
        return min(self.claims_per_exchange, max(_LEAST_BATCH, 2 * self.concurrency))


class _Side:
    """The kinds of one way to run, how many may run at once, and how long each took of late."""

    def __init__(self, kinds: Iterable[str], capacity: int, most_ahead: int) -> None:
        self._run_s = dict.fromkeys(kinds, _UNKNOWN_S)
        self._capacity = capacity
        self._most_ahead = max(0, most_ahead)
        self.in_hand = 0

    def freed(self, kind: str, run_s: float) -> None:
        self.in_hand -= 1
        known_s = self._run_s.get(kind)
        if known_s is not None:
            # Down by degrees, up at once: one quick task does not prove that the next will be.
            self._run_s[kind] = run_s if run_s > known_s else known_s + _WEIGHT * (run_s - known_s)

    def runs(self, kind: str, run_s: float) -> None:
        if kind in self._run_s:
            self._run_s[kind] = max(run_s, self._run_s[kind])

    @property
    def places(self) -> int:
        """Less than none if more wait here already than can run."""
        return self._capacity - self.in_hand

    def hungry(self, ready: set[str]) -> list[str]:
        """The kinds to ask for: those that are known to have work, else all."""
        return [name for name in self._run_s if name in ready] or list(self._run_s)

    def free(self, kinds: Iterable[str]) -> int:
        """What may run, and what may wait here because its turn will come before an exchange could bring it."""
        slowest_s = max((self._run_s[name] for name in kinds if name in self._run_s), default=None)
        if slowest_s is None:
            return 0
        soon = int(self._capacity * _AHEAD_S / max(slowest_s, 1e-6))
        return self._capacity + min(soon, self._most_ahead) - self.in_hand

    def shares(self, free: int, ready: set[str], turn: int) -> dict[str, int]:
        shares = dict.fromkeys(self._run_s, 0)
        hungry = self.hungry(ready)
        if hungry:
            each, more = divmod(free, len(hungry))
            for index, name in enumerate(hungry):
                shares[name] = each + ((index + turn) % len(hungry) < more)
        return shares


class Room:
    """Async kinds share `concurrency`, blocking ones share the children; of quick ones a few more wait in hand.

    How many tasks of a limited kind are claimed, its quota says; they take room once they may run. A kind with places
    of its own takes no room of the others.
    """

    def __init__(self, kinds: Iterable[Kind], limits: Limits) -> None:
        self._limits = limits
        known = list(kinds)
        self._apart = {kind.name: Apart(kind, *kind.places) for kind in known if kind.places is not None}
        free = [kind for kind in known if kind.limit is None and kind.places is None]
        batch = limits.batch
        self._sides = [
            # One batch that runs while the next is fetched.
            _Side((kind.name for kind in free if not kind.blocking), limits.concurrency, batch),
            _Side((kind.name for kind in free if kind.blocking), limits.processes, 2 * batch),
        ]
        self._turn = 0

    def took(self, kind: Kind, lane: str = "") -> None:
        if kind.name in self._apart:
            self._apart[kind.name].took(lane)
        else:
            self._sides[kind.blocking].in_hand += 1

    def freed(self, kind: Kind, run_s: float, lane: str = "") -> None:
        if kind.name in self._apart:
            self._apart[kind.name].freed(lane, run_s)
        else:
            self._sides[kind.blocking].freed(kind.name, run_s)

    def runs(self, kind: Kind, run_s: float, lane: str = "") -> None:
        """One of this kind has been running for so long, and goes on."""
        if kind.name in self._apart:
            self._apart[kind.name].runs(lane, run_s)
        else:
            self._sides[kind.blocking].runs(kind.name, run_s)

    def seen(self, lanes: Mapping[str, Sequence[str]]) -> set[str]:
        """The kinds that have work, as an exchange told; those with places of their own are remembered here."""
        for apart in self._apart.values():
            apart.seen(lanes)
        return {kind for kind, found in lanes.items() if found and kind not in self._apart}

    def places(self, kind: Kind) -> int:
        """How many of a limited kind could run now if they had their slots."""
        return self._sides[kind.blocking].places

    @property
    def blocks(self) -> bool:
        """Whether blocking tasks are in hand."""
        return self._sides[True].in_hand > 0

    def has_some(self, ready: set[str]) -> bool:
        """Whether more may be asked for, whatever is there."""
        return any(side.free(side.hungry(ready)) > 0 for side in self._sides)

    def has_some_for(self, kinds: set[str]) -> bool:
        return any(side.free(kinds) > 0 for side in self._sides)

    @property
    def has_some_apart(self) -> bool:
        """Whether some of what is known to be ready may be claimed for places of its own."""
        return any(apart.has_room for apart in self._apart.values())

    def wants(self, ready: set[str]) -> list[Want]:
        """Room for each kind that is known to have work; a look at the others, who may have some by now."""
        self._turn += 1
        shares: dict[str, int] = {}
        for side in self._sides:
            free = max(0, min(side.free(side.hungry(ready)), self._limits.batch))
            shares.update(side.shares(free, ready, self._turn))
        grace_s = self._limits.attempt_grace_s
        wants = [Want(name, count, grace_s=grace_s) for name, count in shares.items()]
        return wants + [want for apart in self._apart.values() for want in apart.wants(grace_s)]
