"""The record of a limit: its clock, its terms, what counts in its windows, and what keeps everybody out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from forebay.model.limit import CALLS
from forebay.model.limit_record import (
    GrantedCall,
    LimitSession,
    Record,
    Rest,
    Terms,
    UnitBound,
    WaitingRun,
    WindowLog,
)
from forebay.rules import cooldown
from forebay.rules import window_log as logs
from forebay.rules.cooldown import SECOND

SCALE = 1000
HEADS = 32
"""How many places of the line a step looks at."""
MOST_GRANTS = 32
MOST_ENDINGS = 8
"""How many sessions that have ended a step clears away."""
JUMP = 2 * SECOND
LATE = 2 * SECOND
"""How old a grant may be when its call starts, where no window counts when calls start."""
FRESH_SHARE = 20
"""Of the shortest window, how much its grants may be late at most."""
FOREVER = 1 << 45
PAUSED = "paused"
RELEARNING = "relearning"
IN_FLIGHT = "in_flight"
_CUT_OFF = ":cut_off"
_NOTHING: Rest = {
    "in_flight_count": 0,
    "in_flight_sums": {},
    "cut_off_count": 0,
    "latest_call_until": 0,
    "session_count": 0,
    "caller_count": 0,
    "run_count": 0,
    "before_count": 0,
    "horizon": [],
}


def new_record(now: int, version: int = 0) -> Record:
    """`version`: the highest that its maker has seen of a limit by this name, which the store then has forgotten."""
    return {
        "version": version,
        "generation": 1,
        "clock_offset_ms": 0,
        "last_step_at": now,
        "layers": [],
        "eras": [],
        "terms_version": 0,
        "window_logs": {},
        "sessions": {},
        "tails": {},
        "paused_until": -1,
        "pause_note": "",
        "cooldown": cooldown.none(),
        "held_back_until": 0,
        "virtual_time": 0,
        "arrival_count": 0,
        "mean_call_ms": 0,
        "freshness_ms": 0,
        "freshness_until": 0,
        "last_counted_at": 0,
    }


def logical(record: Record, raw: int, *, seen: int = -1, elapsed: int = 0) -> int:
    """The store's time without its jumps: whoever asks knows how long ago it was told which instant.

    It is believed about more time than the store's clock shows only if that was set back: else one that counts too
    much, because its request was slow or its clock is fast, would open the windows of all.
    """
    now = raw + record["clock_offset_ms"]
    last = record["last_step_at"]
    told = seen + elapsed if seen >= 0 else -1
    true = now
    if now < last - JUMP:
        true = max(told, last)
    elif last - JUMP <= told < now - JUMP:
        true = told
    record["clock_offset_ms"] += true - now
    now = max(true, last)
    record["last_step_at"] = now
    return now


def terms_at(record: Record, now: int) -> Terms:
    while len(record["eras"]) > 1 and 0 <= record["eras"][0]["ends_at"] <= now:
        del record["eras"][0]
        record["terms_version"] += 1
    return record["eras"][0]["terms"]


def late_after(terms: Terms, freshness: int = 0) -> int:
    """Return how old a grant may be when its call starts; `freshness` is what a slow store needs.

    Windows count calls as of their grants, so there a late start moves them together. A bound of calls in flight counts
    a call until it ends, whenever it starts.
    """
    if not terms["windows"]:
        return max(terms["start_within_ms"], LATE)
    return max(terms["start_within_ms"], min(freshness, most_fresh(terms)))


def most_fresh(terms: Terms) -> int:
    """Return how old a grant may ever be when its call starts, where windows count it."""
    shortest = min(bound["per_ms"] for bound in terms["windows"])
    return max(terms["start_within_ms"], min(LATE, shortest // FRESH_SHARE))


def late_now(record: Record) -> int:
    """Return the same for grants that are made now: under terms to come, too, their calls must have started in time."""
    return min(late_after(era["terms"], record["freshness_ms"]) for era in record["eras"])


def counted_at(record: Record, now: int) -> int:
    """Return the instant at which windows count a call that is granted now, and take note of it.

    A window counts a call for its own length and what the terms say that a call may start late. One that may start
    later counts as of a later instant, by as much; and never before others that were granted earlier.
    """
    starts = [era["terms"]["start_within_ms"] for era in record["eras"] if era["terms"]["windows"]]
    later = max(0, late_now(record) - min(starts, default=late_now(record)))
    record["last_counted_at"] = max(record["last_counted_at"], now + later)
    return record["last_counted_at"]


def report_delay(record: Record, terms: Terms, delay: int, now: int) -> None:
    """Let new grants be older when their calls start, if grants come late; for a while, then as fresh as before."""
    if record["freshness_ms"] > 0 and now >= record["freshness_until"]:
        record["freshness_ms"] = record["freshness_until"] = 0
    if not terms["windows"] or delay <= terms["start_within_ms"]:
        return
    needed = min(delay + delay // 2, most_fresh(terms))
    widest = max(wide for _, wide in widths(terms))
    record["freshness_ms"] = max(record["freshness_ms"], needed)
    record["freshness_until"] = now + widest + most_fresh(terms)


def held_for(record: Record, terms: Terms) -> int:
    """Return how long after its grant a call may be in progress."""
    return late_now(record) + terms["transit_ms"] + terms["call_timeout_ms"]


def hold_back(record: Record, terms: Terms, now: int) -> None:
    # What was forgotten may have been granted under other terms.
    wait = max(terms["start_within_ms"], LATE) + terms["transit_ms"] + terms["call_timeout_ms"]
    if terms["windows"]:
        # Calls may have counted as of later instants than now.
        wait = max(wait, max(wide for _, wide in widths(terms)) + most_fresh(terms) - terms["start_within_ms"])
    record["held_back_until"] = max(record["held_back_until"], now + wait)


def widths(terms: Terms) -> list[tuple[str, int]]:
    return [(logs.name(bound), logs.width(bound, terms)) for bound in terms["windows"]]


def log_of(record: Record, name: str) -> WindowLog:
    return record["window_logs"].setdefault(name, {"sum": 0, "entries": []})


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


def uncount(record: Record, units: dict[str, int], counted_at: int, now: int) -> None:
    for window in counted(record):
        # What does not count any more has nothing to take back: all that is there is of others.
        if counted_at + window.wide > now:
            logs.take_back(log_of(record, window.name), counted_at, units.get(window.unit, 0), window.wide)


def prune(record: Record, terms: Terms, now: int, *, most: int | None = None) -> bool:
    """Drop what sessions hold that have ended, as soon as the provider cannot work on it any more.

    Return whether more sessions than `most` are due.
    """
    due = sorted((seat["due_at"], sid) for sid, seat in record["sessions"].items() if seat["due_at"] <= now)
    for _, sid in due[:most]:
        seat = record["sessions"][sid]
        for run in seat["runs"]:
            left_line(record, run["key"])
        seat["runs"] = []
        seat["unconfirmed"] = []
        seat["calls"] = (
            [] if terms["stops_on_disconnect"] else [call for call in seat["calls"] if call["call_until"] > now]
        )
        if seat["calls"]:
            seat["due_at"] = min(call["call_until"] for call in seat["calls"])
        else:
            del record["sessions"][sid]
    return most is not None and len(due) > most


def start_again(record: Record, terms: Terms, now: int, latest: int) -> None:
    """Forget all sessions, because some of what was known of them is gone; `latest`: when their last call is over."""
    record["generation"] += 1
    record["sessions"] = {}
    record["tails"] = {}
    record["window_logs"] = {}
    record["virtual_time"] = 0
    record["held_back_until"] = max(record["held_back_until"], latest)
    hold_back(record, terms, now)


def cost(units: dict[str, int], terms: Terms) -> int:
    """The largest share of any bound that a call takes, in thousandths."""
    most = 1
    if terms["in_flight"] > 0:
        most = max(most, int(SCALE / terms["in_flight"]))
    for bound in (*terms["windows"], *terms["in_flight_units"]):
        if bound["n"] > 0:
            most = max(most, int(units.get(bound["unit"], 0) * SCALE / bound["n"]))
    return min(most, SCALE)


def enter_line(record: Record, key: str, *, front: bool = False) -> int:
    """Count one more run of a key, and return where it stands: behind the last of them."""
    tail = record["tails"].setdefault(key, {"virtual_finish": record["virtual_time"], "run_count": 0})
    tail["run_count"] += 1
    return record["virtual_time"] - FOREVER if front else max(record["virtual_time"], tail["virtual_finish"])


def extend_tail(record: Record, run: WaitingRun, terms: Terms) -> None:
    """Have others of its key stand behind a run."""
    tail = record["tails"][run["key"]]
    tail["virtual_finish"] = max(
        tail["virtual_finish"], run["virtual_start"] + run["caller_count"] * cost(run["units"], terms)
    )


def left_line(record: Record, key: str) -> None:
    """Forget the tail of a key when its last run has left."""
    tail = record["tails"][key]
    tail["run_count"] -= 1
    if tail["run_count"] == 0:
        del record["tails"][key]


def tidy(record: Record, terms: Terms, now: int) -> None:
    """Drop what does not count any more."""
    for window in counted(record):
        logs.expire(log_of(record, window.name), now, window.wide)
    prune(record, terms, now)


def rest_of(record: Record) -> Rest:
    """Return what the record leaves out, which is nothing in a record that was read whole."""
    return record.get("rest", _NOTHING)


def only(record: Record, sid: str) -> Record:
    """Return what a record says of itself and of one session; the others are counted."""
    others = [seat for each, seat in record["sessions"].items() if each != sid]
    rest: Rest = {
        "in_flight_count": sum(len(seat["calls"]) for seat in others),
        "in_flight_sums": units_of(call for seat in others for call in seat["calls"]),
        "cut_off_count": cut_off_count(record)
        - (len(record["sessions"][sid]["calls"]) if _is_known_cut_off(record, sid) else 0),
        "latest_call_until": 0,
        "session_count": sum(seat["due_at"] == seat["ends_at"] for seat in others),
        "caller_count": sum(run["caller_count"] for seat in others for run in seat["runs"]),
        "run_count": sum(len(seat["runs"]) for seat in others),
        "before_count": 0,
        "horizon": [],
    }
    part = record.copy()
    part["sessions"] = {each: seat for each, seat in record["sessions"].items() if each == sid}
    part["tails"] = {}
    part["window_logs"] = {name: {"sum": log["sum"], "entries": []} for name, log in record["window_logs"].items()}
    part["rest"] = rest
    return part


def _is_known_cut_off(record: Record, sid: str) -> bool:
    return is_cut_off(sid) and sid in record["sessions"]


def session_count(record: Record) -> int:
    """Return how many sessions are alive, or have ended so recently that nobody has noticed yet."""
    return rest_of(record)["session_count"] + sum(
        [seat["due_at"] == seat["ends_at"] for seat in record["sessions"].values()]
    )


def waiting_count(record: Record) -> int:
    counts = [run["caller_count"] for seat in record["sessions"].values() for run in seat["runs"]]
    return rest_of(record)["caller_count"] + sum(counts)


def nobody_waits(record: Record) -> bool:
    return rest_of(record)["run_count"] == 0 and not any(seat["runs"] for seat in record["sessions"].values())


def in_flight(record: Record) -> int:
    return rest_of(record)["in_flight_count"] + sum([len(seat["calls"]) for seat in record["sessions"].values()])


def in_flight_sum(record: Record, unit: str) -> int:
    """Return how much of a unit the calls in progress take."""
    calls = [call["units"].get(unit, 0) for session in record["sessions"].values() for call in session["calls"]]
    return rest_of(record)["in_flight_sums"].get(unit, 0) + sum(calls)


def units_of(calls: Iterable[GrantedCall]) -> dict[str, int]:
    """Return how much calls take together of each unit but calls."""
    sums: dict[str, int] = {}
    for call in calls:
        for unit, count in call["units"].items():
            if unit != CALLS and count > 0:
                sums[unit] = sums.get(unit, 0) + count
    return sums


def in_flight_sums(record: Record, terms: Terms) -> dict[str, int]:
    """Return the same for each unit whose calls in progress are bounded."""
    return {bound["unit"]: in_flight_sum(record, bound["unit"]) for bound in terms["in_flight_units"]}


def in_flight_name(bound: UnitBound) -> str:
    """Return what says that a call waits for this bound."""
    return f"{IN_FLIGHT}:{bound['unit']}"


def cut_off_sid(sid: str) -> str:
    """The session that holds a session's calls that were cut off: one that has ended, and that nobody can open."""
    return sid + _CUT_OFF


def is_cut_off(sid: str) -> bool:
    return sid.endswith(_CUT_OFF)


def cut_off_count(record: Record) -> int:
    """How many calls in flight were cut off: nobody waits for them, but the provider may still work on them."""
    known = sum(len(seat["calls"]) for sid, seat in record["sessions"].items() if seat["calls"] and is_cut_off(sid))
    return rest_of(record)["cut_off_count"] + known


def gate(record: Record, terms: Terms, now: int) -> tuple[str, int]:
    """What keeps everybody out, and until when; the end is not after `now` where nothing does."""
    cool = record["cooldown"]
    if record["paused_until"] == 0 or record["paused_until"] > now:
        return PAUSED, record["paused_until"] or FOREVER
    if terms["in_flight"] == 0:
        return PAUSED, FOREVER
    for bound in (*terms["windows"], *terms["in_flight_units"]):
        if bound["n"] == 0:
            return PAUSED, FOREVER
    if cool["ends_at"] > now and cool["ends_at"] >= record["held_back_until"]:
        return cool["kind"], cool["ends_at"]
    if record["held_back_until"] > now:
        return RELEARNING, record["held_back_until"]
    return "", 0


class Place(NamedTuple):
    sid: str
    run: WaitingRun


def horizon(record: Record) -> tuple[int, int] | None:
    """Return the order of the last place before which none that may be served is missing, or None where none is."""
    known = rest_of(record)["horizon"]
    return (known[0], known[1]) if known else None


def line(record: Record) -> list[Place]:
    """All runs that the record has, in the order in which they are served."""
    places = [Place(sid, run) for sid, seat in record["sessions"].items() for run in seat["runs"]]
    places.sort(key=order)
    return places


def order(place: Place) -> tuple[int, int]:
    return place.run["virtual_start"], place.run["arrival_number"]


def is_silent(seat: LimitSession) -> bool:
    """Whether a session is granted nothing until it has said something.

    It has to confirm its last grants, or is a kept place whose owner is away.
    """
    place = seat.get("place")
    return bool(seat["unconfirmed"]) or (place is not None and not place["is_awaited"] and not place["holder"])


class Standing(NamedTuple):
    """The line as a step sees it: runs that may be served, as far as none is missing, and those that may not yet.

    A session that is silent gets no more, unless it is the one that asks. Runs that are too large hold up nobody, and
    are in neither list.
    """

    grantable: list[Place]
    unconfirmed: list[Place]


def standing(record: Record, terms: Terms, *, asking: str) -> Standing:
    seats, last = record["sessions"], horizon(record)
    found = Standing([], [])
    for place in line(record):
        if too_large(terms, place.run["units"]):
            continue
        if place.sid != asking and is_silent(seats[place.sid]):
            found.unconfirmed.append(place)
        elif last is None or order(place) <= last:
            found.grantable.append(place)
    return found


def rank(record: Record, terms: Terms, tag: int) -> int:
    """Return how many runs stand before a place."""
    before = [run for seat in record["sessions"].values() for run in seat["runs"] if run["virtual_start"] < tag]
    return rest_of(record)["before_count"] + sum(not too_large(terms, run["units"]) for run in before)


def too_large(terms: Terms, units: dict[str, int]) -> bool:
    """Whether it could never be granted; such a one holds up nobody."""
    for bound in terms["windows"]:
        if 0 < bound["n"] < units.get(bound["unit"], 0):
            return True
    for unit_bound in terms["in_flight_units"]:  # noqa: SIM110 - asked of every place in line, mostly without any
        if 0 < unit_bound["n"] < units.get(unit_bound["unit"], 0):
            return True
    return False


def windows_free_in(record: Record, terms: Terms, units: dict[str, int], now: int) -> int:
    free_in = 0
    for bound in terms["windows"]:
        log = log_of(record, logs.name(bound))
        need = units.get(bound["unit"], 0)
        if need > 0:
            free_in = max(free_in, logs.free_in(log, now, logs.width(bound, terms), bound["n"], need))
    return free_in
