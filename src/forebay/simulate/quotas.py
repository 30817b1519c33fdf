"""Decides whether a call is within its quotas, from what this side has admitted so far."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from forebay.simulate.clock import Clock
from forebay.simulate.messages import Denial
from forebay.simulate.routes import matching
from forebay.simulate.settings import Quota, Window


@dataclass
class _Log:
    """What arrived in a window that is still open."""

    entries: deque[tuple[float, int]] = field(default_factory=deque)
    total: int = 0

    def add(self, at: float, units: int) -> None:
        self.entries.append((at, units))
        self.total += units

    def forget(self, until: float) -> None:
        while self.entries and self.entries[0][0] <= until:
            self.total -= self.entries.popleft()[1]


@dataclass
class _State:
    month: int = 0
    logs: dict[Window, _Log] = field(default_factory=dict)


class Quotas:
    """`admit` counts a call in all quotas of its route or in none; `release` ends it."""

    def __init__(self, quotas: Mapping[str, Quota], clock: Clock) -> None:
        self._clock = clock
        self._open: Counter[str] = Counter()
        self._states: dict[str, _State] = {}
        self._quotas: Mapping[str, Quota] = {}
        self.configure(quotas)

    def configure(self, quotas: Mapping[str, Quota]) -> None:
        """What was counted stays counted where a bound stays."""
        self._quotas = dict(quotas)
        self._states = {name: self._states.get(name) or _State() for name in quotas}

    def reset(self) -> None:
        """A new month, and empty windows; calls in progress stay."""
        for state in self._states.values():
            state.month = 0
            state.logs.clear()

    def admit(self, routes: Sequence[str], at: float, units: Mapping[str, int]) -> Denial | None:
        """Several routes are all admitted or none: a request, and the job that it begins."""
        found = [each for route in routes for each in self._of(route)]
        for name, quota, state in found:
            denial = self._denial(name, quota, state, at, units)
            if denial is not None:
                for _, each, counted in found:
                    if each.count_refused:
                        self._count(each, counted, at, units)
                return denial
        self._open.update(routes)
        for _, quota, state in found:
            if quota.month is not None:
                state.month += _taken(units, quota.month.unit)
            self._count(quota, state, at, units)
        return None

    def release(self, route: str) -> None:
        self._open[route] -= 1

    def left(self, route: str, unit: str, at: float) -> tuple[int, int, float] | None:
        """Of the tightest window of this unit: its size, what is left, and when it will be empty again."""
        found = [
            (window.n, max(0, window.n - self._log(state, window, at).total), self._empty_in(state, window, at))
            for _, quota, state in self._of(route)
            for window in quota.windows
            if window.unit == unit
        ]
        return min(found, key=lambda each: each[1], default=None)

    def _of(self, route: str) -> Iterator[tuple[str, Quota, _State]]:
        for name, quota in self._quotas.items():
            if route in matching(name):
                yield name, quota, self._states[name]

    def _count(self, quota: Quota, state: _State, at: float, units: Mapping[str, int]) -> None:
        for window in quota.windows:
            self._log(state, window, at).add(at, _taken(units, window.unit))

    def _denial(self, name: str, quota: Quota, state: _State, at: float, units: Mapping[str, int]) -> Denial | None:
        month = quota.month
        if month is not None and state.month + _taken(units, month.unit) > month.n:
            return Denial(name, "month", month.unit, month.n, None, 0.0, month=True)
        if quota.in_flight is not None and sum(self._open[route] for route in matching(name)) >= quota.in_flight:
            return Denial(name, "in_flight", "calls", quota.in_flight, None, 1.0)
        for window in quota.windows:
            taken = _taken(units, window.unit)
            log = self._log(state, window, at)
            if log.total + taken > window.n:
                wait = self._fits_in(log, window, at, taken)
                return Denial(name, "window", window.unit, window.n, window.per_s, wait)
        return None

    def _log(self, state: _State, window: Window, at: float) -> _Log:
        log = state.logs.setdefault(window, _Log())
        log.forget(at - window.per_s if window.edge == "sliding" else self._edge(window, at))
        return log

    def _edge(self, window: Window, at: float) -> float:
        """The last instant before the calendar slice that `at` is in."""
        wall = self._clock.wall(at)
        return math.nextafter(at - (wall - math.floor(wall / window.per_s) * window.per_s), -math.inf)

    def _fits_in(self, log: _Log, window: Window, at: float, taken: int) -> float:
        if window.edge == "fixed":
            return max(0.0, self._edge(window, at) + window.per_s - at)
        excess = log.total + taken - window.n
        for arrived, units in log.entries:
            excess -= units
            if excess <= 0:
                return max(0.0, arrived + window.per_s - at)
        return window.per_s

    def _empty_in(self, state: _State, window: Window, at: float) -> float:
        log = self._log(state, window, at)
        if not log.entries:
            return 0.0
        start = self._edge(window, at) if window.edge == "fixed" else log.entries[-1][0]
        return max(0.0, start + window.per_s - at)


def _taken(units: Mapping[str, int], unit: str) -> int:
    return 1 if unit == "calls" else units.get(unit, 0)
