"""Decides how long a whole limit pauses after a refusal or a row of failures, and how it comes back."""

from __future__ import annotations

from forebay.model.limit import CALLS
from forebay.model.limit_record import Cooldown, ProviderRefusal, Record, Terms

SECOND = 1000
QUOTA = "quota"
COOLDOWN = "cooldown"
BREAKER = "breaker"
_RAMP_BITS = 20
MANY = 1 << 40


def none() -> Cooldown:
    return {
        "kind": "",
        "ends_at": 0,
        "began_at": 0,
        "level": 0,
        "ramp_began_at": 0,
        "ramp_second": 0,
        "ramp_grant_count": 0,
        "failure_count": 0,
    }


def throttle(record: Record, terms: Terms, hint: ProviderRefusal, now: int) -> None:
    """A refusal. Of the many that see the same one, the first begins it; the others can only make it longer."""
    cool = record["cooldown"]
    if hint["kind"] == QUOTA:
        _begin(cool, QUOTA, now, hint["wait_ms"] if hint["wait_ms"] >= 0 else terms["max_cooldown_ms"])
        return
    said = min(hint["wait_ms"], terms["max_cooldown_ms"])
    if hint["granted_at"] > cool["began_at"]:
        cool["level"] += 1
        wait = said if said >= 0 else step(terms, cool["level"])
        _begin(cool, COOLDOWN, now, min(wait + wait * hint["jitter_permille"] // 1000, terms["max_cooldown_ms"]))
    elif said >= 0 and now + said > cool["ends_at"]:
        if cool["ends_at"] <= now:
            cool["kind"] = COOLDOWN
        cool["ends_at"] = now + said
        cool["ramp_began_at"] = -1


def step(terms: Terms, level: int) -> int:
    backoff = terms["cooldown_steps_ms"]
    return backoff[min(level, len(backoff)) - 1]


def _begin(cool: Cooldown, kind: str, now: int, wait: int) -> None:
    if now + wait >= cool["ends_at"] or cool["kind"] != QUOTA:
        cool["kind"] = kind
    cool["ends_at"] = max(cool["ends_at"], now + wait)
    cool["began_at"] = now
    cool["ramp_began_at"] = -1
    cool["failure_count"] = 0


def ended(record: Record, terms: Terms, outcome: str, granted_at: int, now: int) -> None:
    """A call has ended; only those that were granted after the last cool-down began say anything about it."""
    cool = record["cooldown"]
    if granted_at <= cool["began_at"]:
        return
    if outcome == "ok":
        cool["failure_count"] = 0
        cool["level"] = 0
    elif outcome == "failed":
        cool["failure_count"] += 1
        if 0 < terms["breaker_after"] <= cool["failure_count"]:
            cool["level"] += 1
            _begin(cool, BREAKER, now, step(terms, cool["level"]))


def lift(record: Record) -> None:
    """Somebody knows better: no cool-down, and no ramp after it."""
    record["cooldown"] = none() | {"began_at": record["cooldown"]["began_at"]}


def room(record: Record, terms: Terms, now: int) -> int:
    """How many may be granted now, as far as a ramp is concerned; it ends where it would bound nothing more."""
    cool = record["cooldown"]
    if cool["ramp_began_at"] == 0:
        return MANY
    if cool["ramp_began_at"] < 0:
        return 1
    second = (now - cool["ramp_began_at"]) // SECOND
    if second >= _RAMP_BITS or (1 << second) >= _full(terms):
        cool["ramp_began_at"] = 0
        return MANY
    return (1 << second) - (cool["ramp_grant_count"] if cool["ramp_second"] == second else 0)


def _full(terms: Terms) -> int:
    full = terms["in_flight"] if terms["in_flight"] >= 0 else MANY
    for bound in terms["windows"]:
        if bound["unit"] == CALLS:
            full = min(full, bound["n"])
    return full


def granted(record: Record, now: int) -> None:
    cool = record["cooldown"]
    if cool["ramp_began_at"] == 0:
        return
    if cool["ramp_began_at"] < 0:
        cool["ramp_began_at"] = now
        cool["ramp_second"] = 0
        cool["ramp_grant_count"] = 0
    second = (now - cool["ramp_began_at"]) // SECOND
    if second != cool["ramp_second"]:
        cool["ramp_second"] = second
        cool["ramp_grant_count"] = 0
    cool["ramp_grant_count"] += 1


def next_room_at(record: Record, now: int) -> int:
    """When a ramp that gives nothing now gives more."""
    cool = record["cooldown"]
    return cool["ramp_began_at"] + ((now - cool["ramp_began_at"]) // SECOND + 1) * SECOND
