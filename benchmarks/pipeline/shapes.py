"""The quotas that documents go through, and what time so many calls take at least under them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from forebay.model.limit import Limit, Window

LIMIT = "docai"
MAX_PAGES = 2
"""Of a chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A quota, how long calls take under it (from `call_s` to `most_s`), and so many of them.

    `transit_s` is how long a call may be on its way; where others keep the machine busy that is more than usual.
    """

    name: str
    in_flight: int
    n: int
    per_s: float
    call_s: float
    most_s: float
    calls: int
    transit_s: float = 0.05

    def limit(self, above: float = 1.0) -> Limit:
        """What the workers are told: the quota, or so many times as much."""
        windows = [Window(round(self.n * above), per_s=self.per_s)]
        return Limit(LIMIT, in_flight=round(self.in_flight * above), windows=windows, transit_s=self.transit_s)

    @property
    def wide_s(self) -> float:
        """How long a call counts against the window: from its grant, which comes before it arrives."""
        limit = self.limit()
        return self.per_s + limit.start_within_s + limit.transit_s

    @property
    def slack_s(self) -> float:
        """How much earlier than the provider the limiter may know of a call."""
        return self.wide_s - self.per_s

    @property
    def per_second(self) -> float:
        """Calls a second that both bounds allow."""
        return min(self.n / self.wide_s, self.in_flight / ((self.call_s + self.most_s) / 2))

    @property
    def quota(self) -> dict[str, object]:
        """As the simulator is told."""
        return {"in_flight": self.in_flight, "windows": [{"n": self.n, "per_s": self.per_s}]}

    @property
    def latency(self) -> dict[str, object]:
        return {"kind": "uniform", "s": self.call_s, "most_s": self.most_s}

    def bound_s(self, calls: int, call_s: float) -> float:
        """No order of calls is faster than the slower of the two bounds alone."""
        rounds = math.ceil(calls / self.n)
        return max((rounds - 1) * self.wide_s + call_s, calls * call_s / self.in_flight)

    def best_s(self, lasted: Sequence[float]) -> float:
        """The same with both bounds together, for calls that last so long, each started as soon as both let it."""
        starts: list[float] = []
        ends: list[float] = []
        for number, call_s in enumerate(lasted):
            frees_at = sorted(ends)[number - self.in_flight] if number >= self.in_flight else 0.0
            opens_at = starts[number - self.n] + self.wide_s if number >= self.n else 0.0
            starts.append(max(frees_at, opens_at, starts[-1] if starts else 0.0))
            ends.append(starts[-1] + call_s)
        return max(ends)


RATE = Shape(name="rate", in_flight=30, n=20, per_s=2.0, call_s=0.2, most_s=0.4, calls=240)
IN_FLIGHT = Shape(name="in flight", in_flight=5, n=60, per_s=2.0, call_s=0.3, most_s=0.5, calls=310)
# The last calls are those at the head of a window: a tail that both bounds hold back would be no fault of ours.
MIXED = Shape(name="mixed", in_flight=16, n=20, per_s=2.0, call_s=1.45, most_s=1.55, calls=232)
SHAPES = (RATE, IN_FLIGHT, MIXED)
_QUICK = {"rate": 100, "in flight": 130, "mixed": 92}


def quick(shape: Shape) -> Shape:
    """The same for about ten seconds."""
    return replace(shape, calls=_QUICK[shape.name])
