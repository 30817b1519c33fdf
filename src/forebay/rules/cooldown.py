"""Decides how long a whole limit pauses after a refusal or a row of failures, and how it comes back."""

from __future__ import annotations

from forebay.model.limit import CALLS
from forebay.model.limit_record import Cool, Hint, Record, Terms

SECOND = 1000
QUOTA = "quota"
COOLDOWN = "cooldown"
BREAKER = "breaker"
_RAMP_BITS = 20
MANY = 1 << 40


def none() -> Cool:
    return {"kind": "", "until": 0, "began": 0, "level": 0, "ramp": 0, "second": 0, "count": 0, "fails": 0}


def throttle(record: Record, terms: Terms, hint: Hint, now: int) -> None:
    """A refusal. Of the many that see the same one, the first begins it; the others can only make it longer."""
    cool = record["cool"]
    if hint["kind"] == QUOTA:
        _begin(cool, QUOTA, now, hint["wait"] if hint["wait"] >= 0 else terms["longest"])
        return
    said = min(hint["wait"], terms["longest"])
    if hint["at"] > cool["began"]:
        cool["level"] += 1
        wait = said if said >= 0 else step(terms, cool["level"])
        _begin(cool, COOLDOWN, now, min(wait + wait * hint["jitter"] // 1000, terms["longest"]))
    elif said >= 0 and now + said > cool["until"]:
        if cool["until"] <= now:
            cool["kind"] = COOLDOWN
        cool["until"] = now + said
        cool["ramp"] = -1


def step(terms: Terms, level: int) -> int:
    backoff = terms["backoff"]
    return backoff[min(level, len(backoff)) - 1]


def _begin(cool: Cool, kind: str, now: int, wait: int) -> None:
    if now + wait >= cool["until"] or cool["kind"] != QUOTA:
        cool["kind"] = kind
    cool["until"] = max(cool["until"], now + wait)
    cool["began"] = now
    cool["ramp"] = -1
    cool["fails"] = 0


def ended(record: Record, terms: Terms, outcome: str, granted_at: int, now: int) -> None:
    """A call has ended; only those that were granted after the last cool-down began say anything about it."""
    cool = record["cool"]
    if granted_at <= cool["began"]:
        return
    if outcome == "ok":
        cool["fails"] = 0
        cool["level"] = 0
    elif outcome == "failed":
        cool["fails"] += 1
        if 0 < terms["breaker"] <= cool["fails"]:
            cool["level"] += 1
            _begin(cool, BREAKER, now, step(terms, cool["level"]))


def lift(record: Record) -> None:
    """Somebody knows better: no cool-down, and no ramp after it."""
    record["cool"] = none() | {"began": record["cool"]["began"]}


def room(record: Record, terms: Terms, now: int) -> int:
    """How many may be granted now, as far as a ramp is concerned; it ends where it would bound nothing more."""
    cool = record["cool"]
    if cool["ramp"] == 0:
        return MANY
    if cool["ramp"] < 0:
        return 1
    second = (now - cool["ramp"]) // SECOND
    if second >= _RAMP_BITS or (1 << second) >= _full(terms):
        cool["ramp"] = 0
        return MANY
    return (1 << second) - (cool["count"] if cool["second"] == second else 0)


def _full(terms: Terms) -> int:
    full = terms["in_flight"] if terms["in_flight"] >= 0 else MANY
    for bound in terms["windows"]:
        if bound["unit"] == CALLS:
            full = min(full, bound["n"])
    return full


def granted(record: Record, now: int) -> None:
    cool = record["cool"]
    if cool["ramp"] == 0:
        return
    if cool["ramp"] < 0:
        cool["ramp"] = now
        cool["second"] = 0
        cool["count"] = 0
    second = (now - cool["ramp"]) // SECOND
    if second != cool["second"]:
        cool["second"] = second
        cool["count"] = 0
    cool["count"] += 1


def next_room_at(record: Record, now: int) -> int:
    """When a ramp that gives nothing now gives more."""
    cool = record["cool"]
    return cool["ramp"] + ((now - cool["ramp"]) // SECOND + 1) * SECOND
