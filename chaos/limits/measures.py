"""Measures calls: how many at once, in any window, during and after cool-downs, and how much of the limit was used."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from chaos.limits.records import Call, CoolDown


@dataclass(frozen=True, slots=True)
class Worst:
    """The highest count that was seen, and when it was first reached."""

    count: int
    at: float


@dataclass(frozen=True, slots=True)
class RampStep:
    """One step of a ramp: what came in it, what came since the cool-down's end, and how much was in progress."""

    number: int
    allowance: int
    arrivals: int
    arrivals_so_far: int
    peak: int


@dataclass(frozen=True, slots=True)
class Back:
    """How long it took the living to reach the limit again, if they did, and what they held once time was up."""

    after_s: float | None
    before: float
    """Their mean number of calls in progress before the kill, with those of the dead."""
    afterwards: float
    """The same from `within_s` after it to the end."""


def levels(calls: Sequence[Call], *, weighted: bool = False) -> Iterator[tuple[float, int]]:
    """Every instant at which the number in progress changes, and that number from then on."""
    changes: list[tuple[float, int, int]] = []
    for call in calls:
        size = call.units if weighted else 1
        changes.append((call.arrived_at, 1, size))
        # Half-open: at the instant of its end a call is in progress no more.
        changes.append((call.ended_at, 0, -size))
    level = 0
    for at, _, change in sorted(changes):
        level += change
        yield at, level


def peak(calls: Sequence[Call], *, weighted: bool = False) -> Worst:
    worst = Worst(0, 0.0)
    for at, level in levels(calls, weighted=weighted):
        if level > worst.count:
            worst = Worst(level, at)
    return worst


def windows(calls: Sequence[Call], window_s: float) -> Iterator[tuple[float, float, int]]:
    """At every arrival: the first one less than `window_s` before it, itself, and the units from then on."""
    units, first = 0, 0
    for call in calls:
        units += call.units
        while call.arrived_at - calls[first].arrived_at >= window_s:
            units -= calls[first].units
            first += 1
        yield calls[first].arrived_at, call.arrived_at, units


def worst_window(calls: Sequence[Call], window_s: float) -> Worst:
    """The most units in any [t, t + window_s): one that begins with an arrival is always among the fullest."""
    worst = Worst(0, 0.0)
    for at, _, units in windows(calls, window_s):
        if units > worst.count:
            worst = Worst(units, at)
    return worst


def intruders(calls: Sequence[Call], cooldowns: Sequence[CoolDown], trail_s: float) -> list[tuple[Call, CoolDown]]:
    """Calls that arrived within a cool-down, later than its news may trail; each with one that forbade it."""
    found = []
    for call in calls:
        for one in cooldowns:
            if one.began_at + trail_s < call.arrived_at < one.ends_at:
                found.append((call, one))
                break
    return found


def episodes(cooldowns: Sequence[CoolDown]) -> list[tuple[float, float]]:
    """Cool-downs that overlap are one; each with its beginning and its end."""
    merged: list[tuple[float, float]] = []
    for one in sorted(cooldowns, key=lambda one: one.began_at):
        if merged and one.began_at <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], one.ends_at))
        else:
            merged.append((one.began_at, one.ends_at))
    return merged


def ramp(
    calls: Sequence[Call], ends_at: float, until: float, *, ceiling: int, probes: int = 1, every_s: float = 1.0
) -> list[RampStep]:
    """What came in each step after a cool-down's end, until the allowance has doubled up to the ceiling.

    A limiter hears of the cool-down after the provider began it, so its own steps begin no earlier than these.
    """
    fresh = [call for call in calls if ends_at <= call.arrived_at < until]
    steps = list(levels(fresh))
    found = []
    number, allowance = 0, probes
    while allowance < ceiling and ends_at + number * every_s < until:
        begins, ends = ends_at + number * every_s, ends_at + (number + 1) * every_s
        earlier = [level for at, level in steps if at < begins]
        within = [level for at, level in steps if begins <= at < ends]
        so_far = sum(call.arrived_at < ends for call in fresh)
        found.append(
            RampStep(
                number=number,
                allowance=allowance,
                arrivals=sum(begins <= call.arrived_at < ends for call in fresh),
                arrivals_so_far=so_far,
                # What is in progress when the allowance grows was let in under the smaller one.
                peak=max([*earlier[-1:], *within], default=0),
            )
        )
        number, allowance = number + 1, allowance * 2
    return found


def busy_s(calls: Sequence[Call], begins_at: float, ends_at: float) -> float:
    """The seconds that calls spent in progress between two instants, added up."""
    return sum(max(0.0, min(call.ended_at, ends_at) - max(call.arrived_at, begins_at)) for call in calls)


def mean_level(calls: Sequence[Call], begins_at: float, ends_at: float) -> float:
    return busy_s(calls, begins_at, ends_at) / (ends_at - begins_at) if ends_at > begins_at else 0.0


def rate_shares(calls: Sequence[Call], n: int, window_s: float) -> list[float]:
    """For k = 1, 2, …: k windows as a share of the time until the units of k windows were used up and one more came.

    `window_s` is the window that is enforced, so 1.0 is what a limiter can do at best.
    """
    shares: list[float] = []
    units = 0
    for call in calls:
        units += call.units
        while units > (len(shares) + 1) * n:
            took_s = call.arrived_at - calls[0].arrived_at
            shares.append((len(shares) + 1) * window_s / took_s if took_s > 0 else math.inf)
    return shares


def back(
    calls: Sequence[Call],
    at: float,
    limit: int,
    *,
    without: AbstractSet[str],
    span: tuple[float, float],
    within_s: float = 0.0,
) -> Back:
    """Look at how those who were not killed got on after the kill at this instant."""
    living = [call for call in calls if call.who not in without]
    level = 0
    after_s = None
    for instant, level_then in levels(living):
        if instant >= at and max(level, level_then) >= limit:
            after_s = max(0.0, instant - at) if level < limit else 0.0
            break
        level = level_then
    before = mean_level(calls, span[0], at)
    return Back(after_s, before, mean_level(living, at + within_s, span[1]))
