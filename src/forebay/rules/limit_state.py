"""The record of a limit: its clock, its terms, what counts in its windows, and what keeps everybody out."""

from __future__ import annotations

from typing import NamedTuple

from forebay.model.limit_record import Log, Record, Run, Terms
from forebay.rules import cooldown
from forebay.rules import window_log as logs
from forebay.rules.cooldown import SECOND

JUMP = 2 * SECOND
LATE = 2 * SECOND
"""How old a grant may be when its call starts, where no window counts when calls start."""
FOREVER = 1 << 45
PAUSED = "paused"
RELEARNING = "relearning"
_CUT_OFF = ":cut_off"


def new_record(now: int, version: int = 0) -> Record:
    """`version`: the highest that its maker has seen of a limit by this name, which the store then has forgotten."""
    return {
        "v": version,
        "gen": 1,
        "offset": 0,
        "last": now,
        "layers": [],
        "eras": [],
        "tv": 0,
        "logs": {},
        "seats": {},
        "paused": -1,
        "note": "",
        "cool": cooldown.none(),
        "hold": 0,
        "virtual": 0,
        "tick": 0,
        "mean": 0,
    }


def logical(record: Record, raw: int, *, seen: int = -1, elapsed: int = 0) -> int:
    """The store's time without its jumps: whoever asks knows how long ago it was told which instant.

    It is believed about more time than the store's clock shows only if that was set back: else one that counts too
    much, because its request was slow or its clock is fast, would open the windows of all.
    """
    now = raw + record["offset"]
    last = record["last"]
    told = seen + elapsed if seen >= 0 else -1
    true = now
    if now < last - JUMP:
        true = max(told, last)
    elif last - JUMP <= told < now - JUMP:
        true = told
    record["offset"] += true - now
    now = max(true, last)
    record["last"] = now
    return now


def terms_at(record: Record, now: int) -> Terms:
    while len(record["eras"]) > 1 and 0 <= record["eras"][0]["until"] <= now:
        del record["eras"][0]
        record["tv"] += 1
    return record["eras"][0]["terms"]


def late_after(terms: Terms) -> int:
    """Return how old a grant may be when its call starts.

    Windows count calls as of their grants, so there a late start moves them together. A bound of calls in flight counts
    a call until it ends, whenever it starts.
    """
    return terms["start"] if terms["windows"] else max(terms["start"], LATE)


def late_now(record: Record) -> int:
    """Return the same for grants that are made now: under terms to come, too, their calls must have started in time."""
    return min(late_after(era["terms"]) for era in record["eras"])


def held_for(record: Record, terms: Terms) -> int:
    """Return how long after its grant a call may be in progress."""
    return late_now(record) + terms["transit"] + terms["call"]


def hold_back(record: Record, terms: Terms, now: int) -> None:
    # What was forgotten may have been granted under other terms.
    wait = max(terms["start"], LATE) + terms["transit"] + terms["call"]
    for _, wide in widths(terms):
        wait = max(wait, wide)
    record["hold"] = max(record["hold"], now + wait)


def widths(terms: Terms) -> list[tuple[str, int]]:
    return [(logs.name(bound), logs.width(bound, terms)) for bound in terms["windows"]]


def log_of(record: Record, name: str) -> Log:
    return record["logs"].setdefault(name, {"sum": 0, "items": []})


class Counted(NamedTuple):
    name: str
    unit: str
    wide: int


def counted(record: Record) -> list[Counted]:
    """The windows in force and those of terms to come, which must know by then what went before."""
    found: dict[str, Counted] = {}
    for era in record["eras"]:
        for bound in era["terms"]["windows"]:
            name = logs.name(bound)
            if name not in found:
                found[name] = Counted(name, bound["unit"], logs.width(bound, era["terms"]))
    return list(found.values())


def count(record: Record, units: dict[str, int], now: int) -> None:
    for window in counted(record):
        logs.add(log_of(record, window.name), now, units.get(window.unit, 0), window.wide)


def uncount(record: Record, units: dict[str, int], granted_at: int, now: int) -> None:
    for window in counted(record):
        # What does not count any more has nothing to take back: all that is there is of others.
        if granted_at + window.wide > now:
            logs.take_back(log_of(record, window.name), granted_at, units.get(window.unit, 0), window.wide)


def prune(record: Record, terms: Terms, now: int) -> None:
    """Drop what sessions hold that have ended, as soon as the provider cannot work on it any more."""
    for sid in list(record["seats"]):
        seat = record["seats"][sid]
        if seat["until"] > now:
            continue
        seat["runs"] = []
        seat["out"] = []
        seat["calls"] = [] if terms["stops"] else [call for call in seat["calls"] if call["until"] > now]
        if not seat["calls"]:
            del record["seats"][sid]


def tidy(record: Record, terms: Terms, now: int) -> None:
    """Drop what does not count any more."""
    for window in counted(record):
        logs.expire(log_of(record, window.name), now, window.wide)
    prune(record, terms, now)


def in_flight(record: Record) -> int:
    return sum(len(seat["calls"]) for seat in record["seats"].values())


def cut_off_sid(sid: str) -> str:
    """The session that holds a session's calls that were cut off: one that has ended, and that nobody can open."""
    return sid + _CUT_OFF


def is_cut_off(sid: str) -> bool:
    return sid.endswith(_CUT_OFF)


def cut_off_count(record: Record) -> int:
    """How many calls in flight were cut off: nobody waits for them, but the provider may still work on them."""
    return sum(len(seat["calls"]) for sid, seat in record["seats"].items() if is_cut_off(sid))


def gate(record: Record, terms: Terms, now: int) -> tuple[str, int]:
    """What keeps everybody out, and until when; the end is not after `now` where nothing does."""
    cool = record["cool"]
    if record["paused"] == 0 or record["paused"] > now:
        return PAUSED, record["paused"] or FOREVER
    if terms["in_flight"] == 0:
        return PAUSED, FOREVER
    for bound in terms["windows"]:
        if bound["n"] == 0:
            return PAUSED, FOREVER
    if cool["until"] > now and cool["until"] >= record["hold"]:
        return cool["kind"], cool["until"]
    if record["hold"] > now:
        return RELEARNING, record["hold"]
    return "", 0


class Place(NamedTuple):
    sid: str
    run: Run


def line(record: Record) -> list[Place]:
    """All runs in the order in which they are served."""
    return sorted((Place(sid, run) for sid, seat in record["seats"].items() for run in seat["runs"]), key=order)


def order(place: Place) -> tuple[int, int]:
    return place.run["tag"], place.run["tick"]


def too_large(terms: Terms, units: dict[str, int]) -> bool:
    """Whether it could never be granted; such a one holds up nobody."""
    return any(0 < bound["n"] < units.get(bound["unit"], 0) for bound in terms["windows"])


def windows_free_in(record: Record, terms: Terms, units: dict[str, int], now: int) -> int:
    free_in = 0
    for bound in terms["windows"]:
        log = log_of(record, logs.name(bound))
        need = units.get(bound["unit"], 0)
        if need > 0:
            free_in = max(free_in, logs.free_in(log, now, logs.width(bound, terms), bound["n"], need))
    return free_in
