"""Counts units in sliding windows: exact up to 512 entries, above that in steps of a 512th, never too few."""

from __future__ import annotations

from forebay.model.limit_record import Terms, UnitBound, WindowBound, WindowLog

MAX_ENTRIES = 512


def name(bound: WindowBound) -> str:
    return f"{bound['unit']}/{bound['per_ms']}"


def bound_text(bound: WindowBound) -> str:
    return f"{bound['n']} {bound['unit']} per {bound['per_ms'] / 1000:g} s"


def in_flight_text(bound: UnitBound) -> str:
    return f"{bound['n']} {bound['unit']} in flight"


def width(bound: WindowBound, terms: Terms) -> int:
    """How long a grant counts: calls arrive later than they are granted, and the clock rounds down."""
    return bound["per_ms"] + terms["start_within_ms"] + terms["transit_ms"] + 1


def expire(log: WindowLog, now: int, wide: int) -> None:
    items = log["entries"]
    at = 0
    while at < len(items) and items[at] + wide <= now:
        log["sum"] -= items[at + 1]
        at += 2
    if at:
        log["entries"] = items[at:]


def add(log: WindowLog, now: int, units: int, wide: int) -> None:
    if units <= 0:
        return
    log["sum"] += units
    step = _step(wide)
    if len(log["entries"]) >= 2 * MAX_ENTRIES and log["entries"][-2] // step != now // step:
        _compact(log, step)
    items = log["entries"]
    full = len(items) >= 2 * MAX_ENTRIES
    if items and (items[-2] == now or (full and items[-2] // step == now // step)):
        items[-2] = now
        items[-1] += units
    else:
        items += [now, units]


def _step(wide: int) -> int:
    return max(1, wide // MAX_ENTRIES)


def _compact(log: WindowLog, step: int) -> None:
    """Join what lies in the same step, at the latest of its instants: it counts longer than it would have, not less."""
    joined: list[int] = []
    items = log["entries"]
    for at in range(0, len(items), 2):
        if joined and joined[-2] // step == items[at] // step:
            joined[-2] = items[at]
            joined[-1] += items[at + 1]
        else:
            joined += [items[at], items[at + 1]]
    log["entries"] = joined


def take_back(log: WindowLog, granted_at: int, units: int, wide: int) -> None:
    """Uncount units of a grant; where it was joined with later ones, from those, and nowhere else."""
    items: list[int] = []
    left = units
    latest = granted_at + _step(wide)
    for at in range(0, len(log["entries"]), 2):
        instant, count = log["entries"][at], log["entries"][at + 1]
        if left > 0 and granted_at <= instant < latest:
            taken = min(left, count)
            left -= taken
            count -= taken
            log["sum"] -= taken
        if count > 0:
            items += [instant, count]
    log["entries"] = items


def used_at(log: WindowLog, instant: int, wide: int) -> int:
    """Of what is counted now, how much will still be counted then."""
    used = log["sum"]
    items = log["entries"]
    at = 0
    while at < len(items) and items[at] + wide <= instant:
        used -= items[at + 1]
        at += 2
    return used


def free_in(log: WindowLog, now: int, wide: int, n: int, units: int) -> int:
    """How long until so many more units fit, if everything before them is granted as soon as it can be."""
    index = log["sum"] + units - n
    if index <= 0:
        return 0
    laps = 0
    if index > log["sum"]:
        # They wait for some that are not even granted yet: each of those follows another one by a whole window.
        laps = -((log["sum"] - index) // n)
        index -= laps * n
    if index <= 0:
        return laps * wide
    items = log["entries"]
    at = 0
    while index > items[at + 1]:
        index -= items[at + 1]
        at += 2
    return items[at] + wide - now + laps * wide
