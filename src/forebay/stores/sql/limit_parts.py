"""Builds the record that a step works on from the part of a limit's rows that was read for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from forebay.model.limit_record import Ask, Grant, Record, Rest, Run, Seat
from forebay.rules import admission
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
    gathered,
)

HEADS_READ = state.HEADS + 1
"""Of the runs that may be granted: one more than a step looks at, so that it knows whether there are more."""
SILENT_READ = state.HEADS
ENDINGS_READ = state.MOST_ENDINGS + 1
CHECKED_EVERY = 64
"""So many steps between two that count all rows."""
_UNCONFIRMED_GRANT: Grant = {"g": 0, "run": 0, "count": 0, "first": 0, "at": 0}


class Forgot(Exception):
    """The rows are not those that the header counts: some are gone, or are of another time."""


class Wanted(NamedTuple):
    """What of a limit an ask has to do with, beside those who are first in line and those who have ended."""

    sid: str
    calls: list[int]
    keys: list[str]
    ended: str
    """The session of calls that were cut off, empty where the ask names none."""


def wanted(ask: Ask) -> Wanted:
    cut_off = any(done["outcome"] in {admission.CUT_OFF, admission.TIMED_OUT} for done in ask["done"])
    return Wanted(
        ask["sid"],
        [*{*(done["id"] for done in ask["done"]), *ask["starts"]}],
        [*{quoted(wish["key"]) for wish in ask["runs"]}],
        state.cut_off_sid(ask["sid"]) if cut_off else "",
    )


def likely_tag(header: Header, want: Wanted, runs: Sequence[RunRow], tails: Sequence[TailRow]) -> int:
    """Return where the asker's first run will stand, most likely: where it stands, or behind the last of its key."""
    own = [run.tag for run in runs if run.sid == want.sid]
    if own:
        return min(own)
    return max([header.virtual, *(tail.tag for tail in tails if tail.key in want.keys[:1])])


def may_only_beat(ask: Ask) -> bool:
    return ask["n"] == 0 and not ask["done"] and not ask["hints"]


class Before(NamedTuple):
    """How many runs that are not too large stand before a tag."""

    tag: int
    runs: int


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
        return sum(run.tag < tag and run.state != TOO_LARGE for runs in (known, others) for run in runs)


def beat_record(header: Header, loaded: LoadedHeader, seat: SeatRows, session: SessionRow) -> Record:
    """Return the record for a heartbeat, which needs its own session and the counts."""
    record = plain_record(header, loaded)
    record["seats"] = {session.sid: seat_of(seat, session)}
    record["logs"] = {name: {"sum": count, "items": []} for name, count in loaded.sums.items()}
    own = seat.counts(session.sid)
    record["rest"] = _rest(loaded, own._replace(used=0), 0, [])
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
        record["seats"][each] = seat_of(rows, rows.session)
    opened = _check_calls(known, sid)
    places: dict[str, dict[int, RunRow]] = {}
    total = _add_places(record, places, parts, total)
    for later in parts.later:
        total = _add_later(record, later, total)
    _load_logs(record, loaded, parts)
    tails = {tail_text(row): row for row in parts.tails}
    record["tails"] = {key: {"tag": row.tag, "runs": row.runs} for key, row in tails.items()}
    is_whole = len(parts.heads) < HEADS_READ
    last = None if is_whole else parts.heads[-1]
    rest = _rest(loaded, total, 0, [] if last is None else [last.tag, last.tick])
    _check(record, loaded, parts, total, rest)
    record["rest"] = rest
    part = Part(record, known, places, tails, dict(parts.windows), loaded.counts, opened)
    if parts.before is not None:
        rest["before"] = parts.before.runs - part.placed_before(parts.before.tag)
    return part


def _check_calls(known: Mapping[str, SeatRows], sid: str) -> int:
    """Return how many calls the asker has that were not read."""
    opened = 0
    for each, rows in known.items():
        missing = rows.session.open - len(rows.calls) if rows.session else 0
        if each == sid:
            opened = missing
        if missing < 0 or (missing and each != sid):
            raise Forgot
    return opened


def _add_places(record: Record, places: dict[str, dict[int, RunRow]], parts: Parts, total: Counts) -> Counts:
    """Add sessions of which only places in line are known, as far as a grant needs them."""
    seats = record["seats"]
    alive = silent = waiting = 0
    for rows, out in ((parts.heads, False), (parts.silent, True)):
        for row in rows:
            run = run_of(row)
            waiting += row.callers
            if row.sid in places:
                seats[row.sid]["runs"].append(run)
                places[row.sid][row.id] = row
                continue
            places[row.sid] = {row.id: row}
            alive += 1
            silent += out
            seats[row.sid] = _bare_seat(row, run, out=out)
    runs = len(parts.heads) + len(parts.silent)
    return total.changed(
        Counts(),
        Counts(seats=alive, alive=alive, silent=silent, runs=runs, waiting=waiting, placed=runs),
    )


def _bare_seat(row: RunRow, run: Run, *, out: bool) -> Seat:
    return {
        "until": state.FOREVER,
        "due": state.FOREVER,
        "n": 0,
        "g": row.g,
        "next": row.next,
        "label": "",
        "calls": [],
        "runs": [run],
        "out": [_UNCONFIRMED_GRANT] if out else [],
    }


def _add_later(record: Record, later: SessionRow, total: Counts) -> Counts:
    """Add the session that is due next, if it is not there yet, as one of which no more than that is known."""
    seat = record["seats"].get(later.sid)
    if seat is not None:
        seat["until"], seat["due"] = later.until, later.due
        return total
    record["seats"][later.sid] = _bare_seat(
        RunRow(later.sid, 0, 0, 0, 0, 0, "{}", '""', '""', later.next, later.g), cast("Run", {}), out=False
    ) | {"until": later.until, "due": later.due, "runs": []}
    is_alive = int(later.due == later.until)
    return total.changed(Counts(), Counts(seats=1, alive=is_alive))


def _load_logs(record: Record, loaded: LoadedHeader, parts: Parts) -> None:
    for name, entries in parts.windows:
        record["logs"][name] = log_of(entries)
    if {name: log["sum"] for name, log in record["logs"].items()} != loaded.sums:
        raise Forgot


def _rest(loaded: LoadedHeader, known: Counts, before: int, horizon: list[int]) -> Rest:
    counts = loaded.counts
    return {
        "used": counts.used - known.used,
        "cut_off": counts.cut_off - known.cut_off,
        "latest": loaded.latest,
        "sessions": counts.alive - known.alive,
        "waiting": counts.waiting - known.waiting,
        "runs": counts.runs - known.runs,
        "before": before,
        "horizon": horizon,
    }


def _check(record: Record, loaded: LoadedHeader, parts: Parts, known: Counts, rest: Rest) -> None:
    """Raise Forgot where the rows are not those that the header counts, as far as can be seen in them."""
    counts = loaded.counts
    least = (rest["used"], rest["cut_off"], rest["sessions"], rest["waiting"], rest["runs"])
    if min(least) < 0 or known.seats > counts.seats or known.silent > counts.silent or known.placed > counts.placed:
        raise Forgot
    if len(parts.heads) < HEADS_READ and len(parts.silent) < SILENT_READ and known.placed != counts.placed:
        raise Forgot
    tails = record["tails"]
    if any(run["key"] not in tails for seat in record["seats"].values() for run in seat["runs"]):
        raise Forgot
    if parts.totals is not None and parts.totals != (counts.seats, counts.runs, counts.used, counts.tails):
        raise Forgot
