"""Decides which bound of a limit binds for calls of a given length, and what throughput that leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from forebay.errors import BadInput, NeverFits
from forebay.model.limit import CALLS, MAX_N, Limit, Window, check_units
from forebay.model.names import check_count, check_duration

IN_FLIGHT = "in_flight"
CALLERS = "callers"
_MINUTE_S = 60.0
_LEAST_CALL_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPlan:
    """`per_minute`: calls that this bound alone would let through, without end."""

    name: str
    per_minute: float
    utilisation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Raise:
    """What the binding bound would have to be for the next one to bind, and what that gives. None: nothing would."""

    needed: int | None
    next_bound: str
    per_minute: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """Calls longer than `call_s` are bound by in_flight, shorter ones by the window."""

    window: str
    call_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The least time that so many calls can take, and what keeps them from being faster."""

    calls: int
    least_s: float
    bound: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`busy`: calls in progress at that throughput, on average; fewer callers than that do not reach it."""

    call_s: float
    binds: str
    per_minute: float
    busy: float
    bounds: tuple[BoundPlan, ...]
    crossovers: tuple[Crossover, ...]
    raised: Raise
    total: Total | None


def plan(
    limit: Limit,
    call_s: float,
    *,
    units: Mapping[str, int] | None = None,
    calls: int | None = None,
    callers: int | None = None,
) -> Plan:
    """Windows count as they are enforced: a little wider than they are written, since calls arrive after their grant.

    `callers` is how many calls you make at once, where that is fewer than the limit allows.
    """
    call_s = max(check_duration("The call time", call_s), _LEAST_CALL_S)
    taken = _taken(limit, units)
    paces = _paces(limit, call_s, taken, callers)
    binding = min(paces, key=lambda name: paces[name])
    per_s = paces[binding]
    return Plan(
        call_s=call_s,
        binds=binding,
        per_minute=per_s * _MINUTE_S,
        busy=per_s * call_s,
        bounds=tuple(
            BoundPlan(name=name, per_minute=pace * _MINUTE_S, utilisation=per_s / pace) for name, pace in paces.items()
        ),
        crossovers=_crossovers(limit, taken),
        raised=_raised(limit, call_s, taken, paces, binding),
        total=None if calls is None else _total(limit, call_s, taken, calls, callers),
    )


def width_s(limit: Limit, window: Window) -> float:
    return window.per_s + limit.start_within_s + limit.transit_s


def _taken(limit: Limit, units: Mapping[str, int] | None) -> dict[str, int]:
    taken = check_units(units)
    known = {CALLS, *(window.unit for window in limit.windows), *limit.in_flight_units}
    for unit in taken:
        if unit not in known:
            raise NeverFits(f"No bound counts {unit!r}.", remedy=f"Counted are: {', '.join(sorted(known))}.")
    for window in limit.windows:
        if window.unit not in taken:
            raise BadInput(
                f"How many {window.unit} a call takes is not known, and a window counts them.",
                remedy=f"Give units: {window.unit}=….",
            )
        if window.n < taken[window.unit]:
            raise NeverFits(
                f"A call of {taken[window.unit]} {window.unit} never fits into {window}.",
                remedy="Make smaller calls, or raise the limit.",
            )
    for unit, n in limit.in_flight_units.items():
        if unit not in taken:
            raise BadInput(
                f"How many {unit} a call takes is not known, and they are bounded in flight.",
                remedy=f"Give units: {unit}=….",
            )
        if n < taken[unit]:
            raise NeverFits(
                f"A call of {taken[unit]} {unit} never fits into {n} {unit} in flight.",
                remedy="Make smaller calls, or raise the limit.",
            )
    if limit.in_flight == 0:
        raise NeverFits("in_flight is 0: the limit is paused.", remedy="Give at least 1.")
    return taken


def _each(window: Window, taken: Mapping[str, int]) -> int:
    """Calls that fit into the window; a call that takes nothing of it is not bound by it."""
    return window.n // taken[window.unit] if taken[window.unit] else MAX_N


def _paces(limit: Limit, call_s: float, taken: Mapping[str, int], callers: int | None) -> dict[str, float]:
    """Calls a second that each bound allows, in the order that people name them."""
    paces: dict[str, float] = {}
    if limit.in_flight is not None:
        paces[IN_FLIGHT] = limit.in_flight / call_s
    for unit, n in limit.in_flight_units.items():
        paces[_in_flight_name(unit)] = _in_flight(n, unit, taken) / call_s
    for window in limit.windows:
        paces[str(window)] = _each(window, taken) / width_s(limit, window)
    if callers is not None:
        paces[CALLERS] = check_count("callers", callers, least=1) / call_s
    return paces


def _in_flight_name(unit: str) -> str:
    return f"{IN_FLIGHT}:{unit}"


def _in_flight(n: int, unit: str, taken: Mapping[str, int]) -> int:
    """Return how many calls may be in progress by the bound of a unit."""
    return n // taken[unit] if taken[unit] else MAX_N


def _crossovers(limit: Limit, taken: Mapping[str, int]) -> tuple[Crossover, ...]:
    if limit.in_flight is None:
        return ()
    return tuple(
        Crossover(window=str(window), call_s=limit.in_flight * width_s(limit, window) / _each(window, taken))
        for window in limit.windows
    )


def _raised(limit: Limit, call_s: float, taken: Mapping[str, int], paces: Mapping[str, float], binding: str) -> Raise:
    others = {name: pace for name, pace in paces.items() if name != binding}
    if not others:
        return Raise(needed=None, next_bound="", per_minute=None)
    following = min(others, key=lambda name: others[name])
    pace = others[following]
    if binding in {IN_FLIGHT, CALLERS}:
        needed = _up(pace * call_s)
    elif binding.startswith(f"{IN_FLIGHT}:"):
        needed = _up(pace * call_s) * taken[binding.partition(":")[2]]
    else:
        window = next(each for each in limit.windows if str(each) == binding)
        needed = _up(pace * width_s(limit, window)) * taken[window.unit]
    return Raise(needed=needed, next_bound=following, per_minute=pace * _MINUTE_S)


def _total(limit: Limit, call_s: float, taken: Mapping[str, int], calls: int, callers: int | None) -> Total:
    check_count("calls", calls, least=1)
    needs: dict[str, float] = {"call time": call_s}
    if limit.in_flight is not None:
        needs[IN_FLIGHT] = calls * call_s / limit.in_flight
    for unit, n in limit.in_flight_units.items():
        needs[_in_flight_name(unit)] = calls * call_s / _in_flight(n, unit, taken)
    for window in limit.windows:
        rounds = -(-calls // _each(window, taken)) - 1
        if rounds:
            needs[str(window)] = rounds * width_s(limit, window) + call_s
    if callers is not None:
        needs[CALLERS] = calls * call_s / callers
    slowest = max(needs, key=lambda name: needs[name])
    return Total(calls=calls, least_s=needs[slowest], bound=slowest)


def _up(value: float) -> int:
    return math.ceil(round(value, 6))
