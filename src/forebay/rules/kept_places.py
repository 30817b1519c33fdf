"""Keeps places in a limit's line for owners who ask, go away, and come back when they were told.

A kept place is a session of its own with one run. While it waits, it ends `keep_ms` after its owner's last ask, and its
`due_at` says when a step has to look at it: AFTER that instant, so that it is never among the sessions that have ended.
While its owner is away, nothing is granted to it, except around the instant that the owner was told: what becomes free
then is granted, and taken back if the owner does not come.
"""

from __future__ import annotations

from forebay.model.limit_record import (
    Ask,
    DeclaredRun,
    Grant,
    GrantedCall,
    LimitSession,
    Record,
    Terms,
    Wait,
    WaitingRun,
)
from forebay.rules import limit_state as state
from forebay.rules.cooldown import SECOND

SUFFIX = ".place"
"""What the ids of their sessions end in."""
AFTER = state.FOREVER
EARLY = 500
KEPT = 2 * SECOND
"""For so long a slot is kept, from EARLY before the instant that the owner was told."""
MOST_DUE = 8
"""How many places a step looks at because their time has come."""
_LEAST = SECOND
_NEXT = 3 * SECOND
_UNKNOWN = 5 * SECOND
_MOST_MISSED = 2
_PART = 4
_RUN = 1
_HELD = "held"
_LATE = "late"


def is_waiting(seat: LimitSession) -> bool:
    """Whether a session is that of a kept place whose owner holds no slot."""
    place = seat.get("place")
    return place is not None and not place["holder"]


def is_foreign(seat: LimitSession, ask: Ask) -> bool:
    """Whether this is said of the slot of a kept place by somebody who does not hold it."""
    place = seat.get("place")
    return place is not None and not ask.get("keep_ms") and place["holder"] != ask.get("holder", "")


def is_held(seat: LimitSession, now: int) -> bool:
    """Whether somebody who is alive holds the slot of a kept place."""
    place = seat.get("place")
    is_alive = seat["due_at"] == seat["ends_at"] > now
    return place is not None and bool(place["holder"]) and bool(seat["calls"]) and is_alive


def refusal(seat: LimitSession, ask: Ask, now: int) -> str:
    """Return the status of what has no effect, because somebody else holds the slot."""
    if is_foreign(seat, ask):
        return _LATE
    place = seat.get("place")
    if ask.get("keep_ms") and place is not None and place["holder"] != ask.get("holder", "") and is_held(seat, now):
        return _HELD
    return ""


def begin(record: Record, seat: LimitSession, ask: Ask, now: int) -> None:
    """Make a session that of a kept place. Numbers of its calls never mean something else again."""
    for run in seat["runs"]:
        state.left_line(record, run["key"])
    seat["runs"], seat["calls"], seat["unconfirmed"] = [], [], []
    seat["next_call_id"] = max(seat["next_call_id"], ask["next_call_id"], now)
    seat["place"] = {
        "name": ask.get("place_name", ""),
        "told_at": now,
        "is_awaited": 0,
        "missed_count": 0,
        "virtual_start": 0,
        "arrival_number": 0,
        "holder": "",
    }


def wants_the_same(wish: DeclaredRun, other: WaitingRun | GrantedCall) -> bool:
    return wish["units"] == other["units"] and wish["key"] == other.get("key", "")


def line_up(record: Record, seat: LimitSession, ask: Ask, terms: Terms, now: int) -> None:
    """Keep the place, or begin at the end of the line with what was not asked for before; without a wish, leave."""
    place, wish = seat["place"], ask["runs"][0] if ask["runs"] else None
    for run in seat["runs"]:
        if wish is None or not wants_the_same(wish, run):
            state.left_line(record, run["key"])
            seat["runs"] = []
    place["is_awaited"] = 0
    if wish is None:
        seat["ends_at"] = seat["due_at"] = now
        return
    if not seat["runs"]:
        record["arrival_count"] += 1
        _stand(record, seat, wish, terms, state.enter_line(record, wish["key"]), record["arrival_count"])
        place["missed_count"] = 0
    seat["ends_at"] = now + ask.get("keep_ms", 0)
    seat["due_at"] = AFTER + seat["ends_at"]


def _stand(  # noqa: PLR0917 - of this module only
    record: Record, seat: LimitSession, wish: DeclaredRun | GrantedCall, terms: Terms, start: int, number: int
) -> None:
    run: WaitingRun = {
        "id": _RUN,
        "key": wish.get("key", ""),
        "caller_count": 1,
        "units": wish["units"],
        "label": wish["label"],
        "virtual_start": start,
        "arrival_number": number,
    }
    seat["place"]["virtual_start"], seat["place"]["arrival_number"] = start, number
    seat["runs"] = [run]
    state.extend_tail(record, run, terms)


def take_back(record: Record, seat: LimitSession, terms: Terms, now: int, *, to_the_end: bool = False) -> None:
    """Let a slot that was kept count no more, and have the place stand where it stood."""
    [call] = seat["calls"]
    place, key = seat["place"], call.get("key", "")
    state.uncount(record, call["units"], call["counted_at"], now)
    seat["calls"], seat["unconfirmed"] = [], []
    last = state.enter_line(record, key)
    if to_the_end:
        record["arrival_count"] += 1
        _stand(record, seat, call, terms, last, record["arrival_count"])
        return
    # Where the line was empty since, it has begun again from 0.
    _stand(record, seat, call, terms, min(place["virtual_start"], record["virtual_time"]), place["arrival_number"])


def look_after(record: Record, terms: Terms, now: int) -> bool:
    """See to places whose time has come, or is over; return whether there are more than one step looks at."""
    seats = record["sessions"]
    due = sorted((seat["due_at"], sid) for sid, seat in seats.items() if AFTER < seat["due_at"] <= AFTER + now)
    for _, sid in due[:MOST_DUE]:
        seat = seats[sid]
        place = seat["place"]
        over_at = place["told_at"] - EARLY + KEPT
        if now < over_at and now < seat["ends_at"]:
            place["is_awaited"] = 1
            seat["due_at"] = AFTER + over_at
            continue
        was_kept = bool(seat["calls"])
        place["is_awaited"] = 0
        if was_kept:
            place["missed_count"] = (place["missed_count"] + 1) % _MOST_MISSED
            take_back(record, seat, terms, now, to_the_end=place["missed_count"] == 0)
        seat["due_at"] = AFTER + seat["ends_at"]
        if seat["ends_at"] <= now or not seat["runs"]:
            for run in seat["runs"]:
                state.left_line(record, run["key"])
            del seats[sid]
    return len(due) > MOST_DUE


def bind(record: Record, seat: LimitSession, ask: Ask, terms: Terms, now: int) -> None:
    """Have whoever asked hold the slot, in a session that it has to keep alive."""
    seat["place"]["holder"] = ask.get("holder", "")
    seat["place"]["is_awaited"] = 0
    seat["ends_at"] = seat["due_at"] = now + terms["lease_ms"]
    call = seat["calls"][0]
    granted: Grant = {
        "number": seat["grant_number"],
        "run_id": _RUN,
        "call_count": 1,
        "first_call_id": call["id"],
        "granted_at": call["granted_at"],
        # Asked again, the call may have been granted when grants had to be fresher than now.
        "max_age_ms": min(state.late_now(record), state.late_after(terms)),
    }
    seat["unconfirmed"] = [granted]


def tell(record: Record, seat: LimitSession, wait: Wait, keep: int, now: int) -> None:
    """Tell the owner when to come back, in whole seconds: HTTP and workflow engines know no others.

    Nobody can say exactly when a call ends: who is next for a slot comes often.
    """
    eta = wait["eta_ms"]
    if wait["blocked_by"] and all(by.startswith(state.IN_FLIGHT) for by in wait["blocked_by"]):
        if record["mean_call_ms"] == 0:
            eta = min(eta, _UNKNOWN)
        if wait["ahead_count"] == 0:
            eta = min(eta, _NEXT)
    told = max(_LEAST, min(-(-eta // SECOND) * SECOND, keep // _PART // SECOND * SECOND))
    wait["ask_again_in_ms"] = told
    seat["place"]["told_at"] = now + told
    seat["due_at"] = AFTER + now + told - EARLY


def next_due(record: Record) -> int:
    """Return the instant at which a step has to look at a place next."""
    due = [seat["due_at"] for seat in record["sessions"].values() if seat["due_at"] > AFTER]
    return min(due, default=2 * AFTER) - AFTER
