"""Builds the record that a step works on from the part of a limit's rows that was read for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from forebay.model.limit_record import Ask, Grant, LimitSession, Record, Rest, WaitingRun
from forebay.rules import admission, kept_places
from forebay.rules import limit_state as state
from forebay.stores.sql.limit_codec import log_of, plain_record, quoted, run_of, seat_of, tail_text
from forebay.stores.sql.limit_rows import (
    TOO_LARGE,
    CallRow,
    Counts,
    Header,
    LoadedHeader,
    RunRow,
    SeatRows,
    SessionRow,
    TailRow,
    decode,
    gathered,
)

HEADS_READ = state.HEADS + 1
"""Of the runs that may be granted: one more than a step looks at, so that it knows whether there are more."""
SILENT_READ = state.HEADS
ENDINGS_READ = state.MOST_ENDINGS + 1
CHECKED_EVERY = 64
"""So many steps between two that count all rows."""
_UNCONFIRMED_GRANT: Grant = {"number": 0, "run_id": 0, "call_count": 0, "first_call_id": 0, "granted_at": 0}


class Forgot(Exception):
    """The rows are not those that the header counts: some are gone, or are of another time."""


class Wanted(NamedTuple):
    """What of a limit an ask has to do with, beside those who are first in line and those who have ended."""

    sid: str
    calls: list[int]
    keys: list[str]
    ended: str
    """The session of calls that were cut off, empty where the ask names none."""
    reads_calls: bool
    """Whether all calls of the session have to be read: an owner does not know the call that a kept place has."""
    places: bool = True
    """Whether there are kept places that wait."""


def wanted(ask: Ask) -> Wanted:
    cut_off = any(done["outcome"] in {admission.CUT_OFF, admission.TIMED_OUT} for done in ask["ended_calls"])
    keeps = ask.get("keep_ms", 0) > 0
    return Wanted(
        ask["session_id"],
        [*{*(done["call_id"] for done in ask["ended_calls"]), *ask["restamp_call_ids"]}],
        [*{quoted(wish["key"]) for wish in ask["runs"]}],
        state.cut_off_sid(ask["session_id"]) if cut_off or keeps else "",
        keeps,
    )


def likely_tag(header: Header, want: Wanted, runs: Sequence[RunRow], tails: Sequence[TailRow]) -> int:
    """Return where the asker's first run will stand, most likely: where it stands, or behind the last of its key."""
    own = [run.virtual_start for run in runs if run.session_id == want.sid]
    if own:
        return min(own)
    return max([header.virtual_time, *(tail.virtual_finish for tail in tails if tail.key in want.keys[:1])])


def may_only_beat(ask: Ask) -> bool:
    return ask["request_number"] == 0 and not ask["ended_calls"] and not ask["refusals"]


class Before(NamedTuple):
    """How many runs that are not too large stand before a tag."""

    virtual_start: int
    run_count: int


class Totals(NamedTuple):
    """How many rows there are of each kind."""

    sessions: int
    runs: int
    calls: int
    tails: int


class Parts(NamedTuple):
    """Rows that were read for one step.

    `sessions` are known in full, with all of their `runs`: the asker, at most ENDINGS_READ others that are due, and
    that of calls that were cut off. Of the asker the `calls` are those that it names, of the others all. `heads` and
    `silent` are the first runs of other sessions that may be granted, and of those that have to confirm something.
    `later` is the session that is due next. `before` is what stands before the asker's first run, where somebody has
    counted that already; `totals` is there where this step counts all rows.
    """

    sessions: Sequence[SessionRow]
    runs: Sequence[RunRow]
    calls: Sequence[CallRow]
    heads: Sequence[RunRow]
    silent: Sequence[RunRow]
    later: Sequence[SessionRow]
    tails: Sequence[TailRow]
    windows: Sequence[tuple[str, bytes]]
    before: Before | None
    totals: Totals | None


class Part(NamedTuple):
    """The record of a step, and the rows that it was made of: those `known` in full, and `places` of other sessions."""

    record: Record
    known: Mapping[str, SeatRows]
    places: Mapping[str, dict[int, RunRow]]
    tails: Mapping[str, TailRow]
    windows: Mapping[str, bytes]
    counts: Counts
    opened: int
    """Calls of the asker that are not in the record."""

    def placed_before(self, tag: int) -> int:
        """Return how many of the runs that were read stand before a tag."""
        known = (run for seat in self.known.values() for run in seat.runs.values())
        others = (run for runs in self.places.values() for run in runs.values())
        return sum(run.virtual_start < tag and run.state != TOO_LARGE for runs in (known, others) for run in runs)


def beat_record(header: Header, loaded: LoadedHeader, seat: SeatRows, session: SessionRow) -> Record:
    """Return the record for a heartbeat, which needs its own session and the counts."""
    record = plain_record(header, loaded)
    record["sessions"] = {session.session_id: seat_of(seat, session)}
    record["window_logs"] = {name: {"sum": count, "entries": []} for name, count in loaded.window_sums.items()}
    own = seat.counts(session.session_id)
    record["rest"] = _rest(loaded, own._replace(calls=0), {}, 0, [])
    return record


def found_record(header: Header, loaded: LoadedHeader, seat: SeatRows, sid: str) -> Record:
    """Return the record for those who look at one session, if it is there."""
    record = plain_record(header, loaded)
    record.update(decode(header.people))
    if seat.session is not None:
        record["sessions"] = {sid: seat_of(seat, seat.session)}
    record["window_logs"] = {name: {"sum": count, "entries": []} for name, count in loaded.window_sums.items()}
    rest = _rest(
        loaded, seat.counts(sid), state.units_of(record["sessions"][sid]["calls"] if seat.session else []), 0, []
    )
    rest["latest_call_until"] = 0
    rest["in_flight_sums"] = {unit: count for unit, count in rest["in_flight_sums"].items() if count}
    record["rest"] = rest
    return record


def part_record(header: Header, loaded: LoadedHeader, parts: Parts, sid: str) -> Part:
    """Return the record of a step that knows no more than these rows; raise Forgot where they do not fit the header."""
    record = plain_record(header, loaded)
    known = gathered(parts.sessions, parts.runs, parts.calls)
    total = Counts()
    for each, rows in known.items():
        if rows.session is None:
            raise Forgot
        total = total.changed(Counts(), rows.counts(each))
        record["sessions"][each] = seat_of(rows, rows.session)
    opened = _check_calls(known, sid)
    places: dict[str, dict[int, RunRow]] = {}
    total = _add_places(record, places, parts, total)
    for later in parts.later:
        total = _add_later(record, later, total)
    _load_logs(record, loaded, parts)
    tails = {tail_text(row): row for row in parts.tails}
    record["tails"] = {
        key: {"virtual_finish": row.virtual_finish, "run_count": row.run_count} for key, row in tails.items()
    }
    is_whole = len(parts.heads) < HEADS_READ
    last = None if is_whole else parts.heads[-1]
    units = state.units_of(call for session in record["sessions"].values() for call in session["calls"])
    rest = _rest(loaded, total, units, 0, [] if last is None else [last.virtual_start, last.arrival_number])
    _check(record, loaded, parts, total, rest)
    record["rest"] = rest
    part = Part(record, known, places, tails, dict(parts.windows), loaded.counts, opened)
    if parts.before is not None:
        rest["before_count"] = parts.before.run_count - part.placed_before(parts.before.virtual_start)
    return part


def _check_calls(known: Mapping[str, SeatRows], sid: str) -> int:
    """Return how many calls the asker has that were not read."""
    opened = 0
    for each, rows in known.items():
        missing = rows.session.open_call_count - len(rows.calls) if rows.session else 0
        if each == sid:
            opened = missing
        if missing < 0 or (missing and each != sid):
            raise Forgot
    return opened


def _add_places(record: Record, places: dict[str, dict[int, RunRow]], parts: Parts, total: Counts) -> Counts:
    """Add sessions of which only places in line are known, as far as a grant needs them."""
    seats = record["sessions"]
    sessions = alive = silent = waiting = 0
    for rows, out in ((parts.heads, False), (parts.silent, True)):
        for row in rows:
            run = run_of(row)
            waiting += row.caller_count
            if row.session_id in places:
                seats[row.session_id]["runs"].append(run)
                places[row.session_id][row.id] = row
                continue
            places[row.session_id] = {row.id: row}
            seat = seats[row.session_id] = _bare_seat(row, run, out=out)
            sessions += 1
            alive += _is_alive(seat)
            silent += out
    runs = len(parts.heads) + len(parts.silent)
    return total.changed(
        Counts(),
        Counts(
            sessions=sessions,
            live_sessions=alive,
            unconfirmed_sessions=silent,
            runs=runs,
            callers=waiting,
            placed_runs=runs,
        ),
    )


def _is_alive(seat: LimitSession) -> bool:
    return seat["due_at"] == seat["ends_at"]


def _bare_seat(row: RunRow, run: WaitingRun, *, out: bool) -> LimitSession:
    """Return a session of which only a run is known; that of a kept place does not count as alive while it waits."""
    is_place = row.session_id.endswith(kept_places.SUFFIX)
    return {
        "ends_at": state.FOREVER,
        "due_at": kept_places.AFTER + state.FOREVER if is_place else state.FOREVER,
        "request_number": 0,
        "grant_number": row.grant_number,
        "next_call_id": row.next_call_id,
        "label": "",
        "calls": [],
        "runs": [run],
        "unconfirmed": [_UNCONFIRMED_GRANT] if out else [],
    }


def _add_later(record: Record, later: SessionRow, total: Counts) -> Counts:
    """Add the session that is due next, if it is not there yet, as one of which no more than that is known."""
    seat = record["sessions"].get(later.session_id)
    if seat is not None:
        was_alive = _is_alive(seat)
        seat["ends_at"], seat["due_at"] = later.ends_at, later.due_at
        return total._replace(live_sessions=total.live_sessions + _is_alive(seat) - was_alive)
    record["sessions"][later.session_id] = _bare_seat(
        RunRow(later.session_id, 0, 0, 0, 0, 0, "{}", '""', '""', later.next_call_id, later.grant_number),
        cast("WaitingRun", {}),
        out=False,
    ) | {"ends_at": later.ends_at, "due_at": later.due_at, "runs": []}
    is_alive = int(later.due_at == later.ends_at)
    return total.changed(Counts(), Counts(sessions=1, live_sessions=is_alive))


def _load_logs(record: Record, loaded: LoadedHeader, parts: Parts) -> None:
    for name, entries in parts.windows:
        record["window_logs"][name] = log_of(entries)
    if {name: log["sum"] for name, log in record["window_logs"].items()} != loaded.window_sums:
        raise Forgot


def _rest(loaded: LoadedHeader, known: Counts, units: Mapping[str, int], before: int, horizon: list[int]) -> Rest:
    counts = loaded.counts
    sums = {unit: count - units.get(unit, 0) for unit, count in loaded.in_flight_sums.items()}
    return {
        "in_flight_sums": sums | {unit: -count for unit, count in units.items() if unit not in sums},
        "in_flight_count": counts.calls - known.calls,
        "cut_off_count": counts.cut_off_calls - known.cut_off_calls,
        "latest_call_until": loaded.latest_call_until,
        "session_count": counts.live_sessions - known.live_sessions,
        "caller_count": counts.callers - known.callers,
        "run_count": counts.runs - known.runs,
        "before_count": before,
        "horizon": horizon,
    }


def _check(record: Record, loaded: LoadedHeader, parts: Parts, known: Counts, rest: Rest) -> None:
    """Raise Forgot where the rows are not those that the header counts, as far as can be seen in them."""
    counts = loaded.counts
    least = (
        rest["in_flight_count"],
        rest["cut_off_count"],
        rest["session_count"],
        rest["caller_count"],
        rest["run_count"],
        *rest["in_flight_sums"].values(),
    )
    if (
        min(least) < 0
        or known.sessions > counts.sessions
        or known.unconfirmed_sessions > counts.unconfirmed_sessions
        or known.placed_runs > counts.placed_runs
    ):
        raise Forgot
    if len(parts.heads) < HEADS_READ and len(parts.silent) < SILENT_READ and known.placed_runs != counts.placed_runs:
        raise Forgot
    tails = record["tails"]
    if any(run["key"] not in tails for seat in record["sessions"].values() for run in seat["runs"]):
        raise Forgot
    if parts.totals is not None and parts.totals != (counts.sessions, counts.runs, counts.calls, counts.tails):
        raise Forgot
