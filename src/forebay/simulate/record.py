"""Keeps what was seen: every call with its arrival, its end, its units and its answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Call:
    """`admitted`: within quota and not refused; `paid`: the work was done; `whole`: the answer went out unharmed."""

    number: int
    route: str
    arrived: float
    ended: float | None = None
    units: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    fingerprint: str = ""
    status: int | None = None
    fault: str = ""
    denied_by: str = ""
    admitted: bool = False
    paid: bool = False
    whole: bool = False
    gone: bool = False
    """The client went away before the end."""


class Ledger:
    """The calls in the order of their arrival."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._open: Counter[str] = Counter()

    def begin(self, route: str, at: float) -> Call:
        call = Call(len(self._calls) + 1, route, at)
        self._calls.append(call)
        self._open[route] += 1
        return call

    def end(self, call: Call, at: float) -> None:
        if call.ended is None:
            call.ended = max(
                at, math.nextafter(call.arrived, math.inf)
            )  # a call lasts, or it would end before it began
            self._open[call.route] -= 1

    def clear(self) -> None:
        """Forget what has ended; calls in progress stay, as they would count in any bound."""
        self._calls = [call for call in self._calls if call.ended is None]
        for number, call in enumerate(self._calls, 1):
            call.number = number

    def calls(self) -> tuple[Call, ...]:
        return tuple(self._calls)

    def open(self) -> dict[str, int]:
        return {route: count for route, count in dict(self._open).items() if count}

    def rows(self, route: str, after: int, wall: Callable[[float], str]) -> Iterator[dict[str, Any]]:
        """Calls with a number above `after`, each as JSON: instants in seconds since the start, and as dates."""
        for call in self._calls[max(after, 0) :]:
            if route in ("", call.route):
                yield asdict(call) | {"arrived_at": wall(call.arrived)}
