"""Decides how many tasks of which kinds a worker asks for next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forebay.engine.registry import Kind
from forebay.model.exchange import Want

_AHEAD_S = 0.02  # about the time an exchange takes: what starts within it need not wait for the next one
_WEIGHT = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a worker takes on, and how patient it is."""

    concurrency: int = 10
    processes: int = 2
    claims_per_exchange: int = 50
    lease_s: float = 15.0
    poll_s: float = 5.0
    drain_grace_s: float = 30.0
    attempt_grace_s: float = 30.0


class Room:
    """Async kinds share `concurrency`; blocking ones share the children, and a few wait in hand if they are quick."""

    def __init__(self, kinds: Iterable[Kind], limits: Limits) -> None:
        self._limits = limits
        self._groups = [[kind.name for kind in kinds if kind.blocking is blocking] for blocking in (False, True)]
        self._in_hand = [0, 0]
        self._run_s: float | None = None
        self._turn = 0

    def took(self, kind: Kind) -> None:
        self._in_hand[kind.blocking] += 1

    def freed(self, kind: Kind, run_s: float) -> None:
        self._in_hand[kind.blocking] -= 1
        if kind.blocking:
            # From the slow side: one quick task is no proof that the next will be.
            known_s = 1.0 if self._run_s is None else self._run_s
            self._run_s = max(run_s, known_s + _WEIGHT * (run_s - known_s))

    @property
    def free(self) -> int:
        return sum(self._free(blocking) for blocking, names in enumerate(self._groups) if names)

    def _free(self, blocking: int) -> int:
        if not blocking:
            return self._limits.concurrency - self._in_hand[0]
        return self._limits.processes + self._ahead() - self._in_hand[1]

    def _ahead(self) -> int:
        """How many blocking tasks may wait here, because the children will come to them at once."""
        if self._run_s is None:
            return 0
        soon = self._limits.processes * _AHEAD_S / max(self._run_s, 1e-5)
        return min(int(soon), max(0, self._limits.concurrency - self._limits.processes))

    def wants(self, ready: set[str]) -> list[Want]:
        """Room for each kind that is known to have work; a look at the others, who may have some by now."""
        shares: dict[str, int] = {}
        for blocking, names in enumerate(self._groups):
            free = max(0, min(self._free(blocking), self._limits.claims_per_exchange))
            shares.update(self._shared(names, free, ready))
        return [Want(name, count, grace_s=self._limits.attempt_grace_s) for name, count in shares.items()]

    def _shared(self, names: Sequence[str], free: int, ready: set[str]) -> dict[str, int]:
        shares = dict.fromkeys(names, 0)
        hungry = [name for name in names if name in ready] or names
        if hungry:
            self._turn += 1
            each, more = divmod(free, len(hungry))
            for index, name in enumerate(hungry):
                shares[name] = each + ((index + self._turn) % len(hungry) < more)
        return shares
