"""Tells when a call may start that has others before it, and when its caller has to ask again."""

from __future__ import annotations

from typing import NamedTuple

from forebay.model.limit_record import Answer, Record, Terms, UnitBound, Wait, WaitingRun
from forebay.rules import cooldown, kept_places
from forebay.rules import limit_state as state
from forebay.rules import window_log as logs
from forebay.rules.cooldown import SECOND

POLL = 5 * SECOND
UNKNOWN = SECOND  # to wait for calls of which none has ended yet
GRACE = 50
EXACT_GRACE = 10
IN_FLIGHT = state.IN_FLIGHT
RAMP = "ramp"
TOO_LARGE = "too_large"
_FAR_S = state.FOREVER / 2000
_LEAST_S = 0.05


class Ahead(NamedTuple):
    """How many calls are before one, with how many units."""

    calls: int
    units: dict[str, int]


def all_ahead(record: Record, terms: Terms) -> Ahead:
    """What a newcomer has before it."""
    calls = 0
    units: dict[str, int] = {}
    for place in state.line(record):
        if state.too_large(terms, place.run["units"]):
            continue
        calls += place.run["caller_count"]
        for unit, each in place.run["units"].items():
            units[unit] = units.get(unit, 0) + each * place.run["caller_count"]
    return Ahead(calls, units)


def foretold(
    record: Record, terms: Terms, ahead: Ahead, units: dict[str, int], now: int, *, ends: bool = False
) -> tuple[int, list[str]]:
    """When a call may start that has so much before it, and what it waits for: exact for windows, by mean for calls.

    With `ends`, for who looks and does not call, it is heeded when each call in flight has to end.
    """
    if state.too_large(terms, units):
        return state.FOREVER, [TOO_LARGE]
    by: list[str] = []
    eta = 0
    reason, until = state.gate(record, terms, now)
    if until > now:
        by.append(reason)
        eta = until - now
    elif cooldown.room(record, terms, now) <= 0:
        by.append(RAMP)
        eta = cooldown.next_room_at(record, now) - now
    release_in = _release_in(record, terms, ahead.calls)
    if release_in >= 0:
        by.append(IN_FLIGHT)
        eta = max(eta, _ended_in(record, terms, ahead.calls, release_in, now) if ends else release_in)
    for unit_bound in terms["in_flight_units"]:
        taken_in = _units_released_in(record, terms, unit_bound, ahead, units)
        if taken_in >= 0:
            by.append(state.in_flight_name(unit_bound))
            eta = max(eta, taken_in)
    for bound in terms["windows"]:
        need = ahead.units.get(bound["unit"], 0) + units.get(bound["unit"], 0)
        if need > 0 and bound["n"] > 0:
            log = state.log_of(record, logs.name(bound))
            free_in = logs.free_in(log, now, logs.width(bound, terms), bound["n"], need)
            if free_in > 0:
                by.append(logs.name(bound))
                eta = max(eta, free_in)
    return min(eta, state.FOREVER), by


def _release_in(record: Record, terms: Terms, ahead: int) -> int:
    """When so many have ended that one more may be in flight after those ahead, by the mean call; -1 if that is now."""
    releases = state.in_flight(record) + ahead + 1 - terms["in_flight"]
    if terms["in_flight"] <= 0 or releases <= 0:
        return -1
    mean = record["mean_call_ms"] if record["mean_call_ms"] > 0 else terms["call_timeout_ms"]
    return mean * releases // terms["in_flight"]


def _units_released_in(record: Record, terms: Terms, bound: UnitBound, ahead: Ahead, units: dict[str, int]) -> int:
    """When as much of a unit has been given back as a call needs after those ahead, by the mean call; -1 if now."""
    unit = bound["unit"]
    need = units.get(unit, 0)
    missing = state.in_flight_sum(record, unit) + ahead.units.get(unit, 0) + need - bound["n"]
    if need <= 0 or bound["n"] <= 0 or missing <= 0:
        return -1
    mean = record["mean_call_ms"] if record["mean_call_ms"] > 0 else terms["call_timeout_ms"]
    return mean * missing // bound["n"]


def _ended_in(record: Record, terms: Terms, ahead: int, by_mean: int, now: int) -> int:
    """The same, never after those calls have to end; and then, not before, if whoever made them has fallen silent."""
    held = [seat for seat in record["sessions"].values() if seat["calls"]]
    ends = sorted(call["call_until"] for seat in held for call in seat["calls"])
    releases = len(ends) + ahead + 1 - terms["in_flight"]
    if releases > len(ends) or ends[releases - 1] <= now:
        return by_mean
    latest = ends[releases - 1] - now
    return latest if all(seat["ends_at"] <= now for seat in held) else min(by_mean, latest)


class Places(NamedTuple):
    """Places of the line that a step has looked at; unless they `are_all`, others stand behind them."""

    known: list[state.Place]
    are_all: bool


def waits(record: Record, sid: str, places: Places, terms: Terms, now: int) -> list[Wait]:
    """For the first of a session's callers that was not let in."""
    seat = record["sessions"].get(sid)
    runs = seat["runs"] if seat else []
    if not runs:
        return []
    run = min(runs, key=lambda each: (each["virtual_start"], each["arrival_number"]))
    ahead = _ahead_of(record, run, sid, places, terms)
    eta, by = foretold(record, terms, ahead, run["units"], now)
    again = _ask_again_in(record, sid, terms, run["units"], now)
    if ahead.calls > 0:
        # Others are before it, and whoever lets them in lets it in, too: it asks only in case nobody did.
        # Windows open one call after the other, and whoever is next then has nobody to be let in by.
        grace = EXACT_GRACE if eta > _release_in(record, terms, ahead.calls) else GRACE
        again = min(POLL, max(again, eta) + grace)
    return [{"ask_again_in_ms": again, "eta_ms": eta, "ahead_count": ahead.calls, "blocked_by": by}]


def _ahead_of(record: Record, run: WaitingRun, sid: str, places: Places, terms: Terms) -> Ahead:
    """Count what stands before a session's first run: exactly while all places are known, else by the mean of them."""
    calls = runs = 0
    units: dict[str, int] = {}
    for other, each in places.known:
        if (
            other != sid
            and each["caller_count"] > 0
            and (each["virtual_start"], each["arrival_number"]) < (run["virtual_start"], run["arrival_number"])
        ):
            runs += 1
            calls += each["caller_count"]
            for unit, count in each["units"].items():
                units[unit] = units.get(unit, 0) + count * each["caller_count"]
    rank = runs if places.are_all else state.rank(record, terms, run["virtual_start"])
    if rank <= runs or calls == 0:
        return Ahead(calls, units)
    return Ahead(calls * rank // runs, {unit: count * rank // runs for unit, count in units.items()})


def wait_behind(wait: Wait, answer: Answer, terms: Terms, before: int) -> Wait:
    """What a session was told of its first caller, for one with so many more before it in the same process.

    Until a call has ended nobody knows how long they take: then `eta` is FOREVER, and asking again a guess.
    """
    releases = answer["in_flight_count"] + wait["ahead_count"] + 1 - terms["in_flight"]
    eta, again = wait["eta_ms"], wait["ask_again_in_ms"]
    if IN_FLIGHT in wait["blocked_by"] and releases > 0 and terms["in_flight"] > 0:
        if eta == terms["call_timeout_ms"] * releases // terms["in_flight"]:
            eta, again = state.FOREVER, min(again, UNKNOWN)
        else:
            eta += eta * before // releases
    for bound in terms["windows"]:
        if logs.name(bound) in wait["blocked_by"] and bound["n"] > 0:
            eta = max(eta, wait["eta_ms"] + before // bound["n"] * logs.width(bound, terms))
    return {
        "ask_again_in_ms": again,
        "eta_ms": min(eta, state.FOREVER),
        "ahead_count": wait["ahead_count"] + before,
        "blocked_by": wait["blocked_by"],
    }


def eta_s(wait: Wait) -> float | None:
    """Return when the caller may start, or None while nobody can tell."""
    return None if wait["eta_ms"] / 1000 > _FAR_S else wait["eta_ms"] / 1000


def retry_in_s(wait: Wait, eta_s: float | None) -> float:
    """Return what a refused caller should sleep before it asks again."""
    return wait["ask_again_in_ms"] / 1000 if eta_s is None else max(eta_s, _LEAST_S)


def _ask_again_in(record: Record, sid: str, terms: Terms, units: dict[str, int], now: int) -> int:
    """When the head of the line is let in without anybody's doing: its window opens, or somebody's session ends."""
    again = POLL
    _, until = state.gate(record, terms, now)
    if until > now:
        again = min(again, until - now)
    elif cooldown.room(record, terms, now) <= 0:
        again = min(again, cooldown.next_room_at(record, now) - now)
    else:
        free_in = state.windows_free_in(record, terms, units, now)
        if free_in > 0:
            again = min(again, free_in)
        if 0 <= terms["in_flight"] <= state.in_flight(record) or _lacks_units(record, terms, units):
            again = min(again, _next_end_at(record, sid, now) - now)
        # A slot that is kept for somebody who does not come is free then; once a second, however many places there are.
        again = min(again, max(SECOND, kept_places.next_due(record) - now))
    return max(1, again)


def _lacks_units(record: Record, terms: Terms, units: dict[str, int]) -> bool:
    """Return whether calls in flight take so much of a unit that a call of these units does not fit beside them."""
    return any(
        units.get(bound["unit"], 0) > max(0, bound["n"] - state.in_flight_sum(record, bound["unit"]))
        for bound in terms["in_flight_units"]
    )


def _next_end_at(record: Record, sid: str, now: int) -> int:
    """When another session that says nothing any more may give something back."""
    soonest = now + POLL
    for other, seat in record["sessions"].items():
        if other != sid:
            soonest = min(soonest, max(seat["due_at"], now + 1))
    return soonest
