"""What was promised for one limit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

LATE_S = 2.0
"""How old a grant may be when its call starts, in a limit without windows."""


def trail_of(start_within_s: float, transit_s: float, *, has_windows: bool) -> float:
    """Return how long after a cool-down began calls may still arrive."""
    return (start_within_s if has_windows else max(start_within_s, LATE_S)) + transit_s


@dataclass(frozen=True, slots=True)
class Window:
    n: int
    window_s: float

    @classmethod
    def of(cls, text: str) -> Window:
        """Read `20/2`: 20 units in any 2 s."""
        n, _, window_s = text.partition("/")
        return cls(int(n), float(window_s))

    def __str__(self) -> str:
        return f"{self.n} in {self.window_s:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What was promised for one limit; what is None is measured and not judged."""

    in_flight: int | None = None
    in_flight_units: int | None = None
    least_peak: int | None = None
    """How many calls must have been in progress at once, where it need not be all of `in_flight`."""
    windows: tuple[Window, ...] = ()
    excess_allowed: int = 0
    """One for each process that was frozen: it may have been so between its last check and the send."""
    trail_s: float = 0.25
    """How long after a cool-down began calls may still arrive: see `trail_of`."""
    knowing_trail_s: float | None = None
    """The same for processes that know of it, which start no grants of before any more that are not fresh.

    None where all may take the whole of `trail_s`.
    """
    news_s: float = math.inf
    """How long it takes at most until all processes know; the one that was refused knows at once."""
    ramp: Literal["in_flight", "arrivals"] = "in_flight"
    """What doubles: the calls in progress, or the arrivals of each step."""
    ramp_every_s: float = 1.0
    probes: int = 1
    window_extra_s: float = 0.0
    """How much longer than the promised window the enforced one is."""
    ideal: float | None = None
    """The number of calls in progress that this load could keep up at best."""
    least_use: float | None = None
    """The share of the ideal that must have been in progress."""
    least_rate: float | None = None
    back_within_s: float | None = None
    least_back: float = 0.8
    """The share of what was in progress before a kill that must be so again afterwards."""
    least_kills: int = 0
    least_stops: int = 0
    least_cooldowns: int = 0

    @property
    def ceiling(self) -> int:
        """Where a ramp ends."""
        return self.in_flight or max((window.n for window in self.windows), default=1)
