"""Reads the rows that a step needs, by statements that every SQL store has under the same names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from forebay.rules import kept_places
from forebay.stores.sql import limit_parts
from forebay.stores.sql.limit_parts import Before, Parts, Totals, Wanted
from forebay.stores.sql.limit_rows import (
    MAY_BE_GRANTED,
    NO_ROWS,
    CallRow,
    Header,
    LoadedHeader,
    RunRow,
    SeatRows,
    SessionRow,
    TailRow,
)

TAILS_READ = 64
"""Up to so many keys of callers, the tails of all of them are read: which of them a step needs, the line says."""
BEHIND_READ = 64
"""Who comes last has few behind it and many before it: up to so many are counted from behind."""


class Query(NamedTuple):
    """A statement by its name, with its arguments after the limit's id; for `each` of one more argument, if given."""

    name: str
    arguments: tuple[Any, ...] = ()
    each: tuple[Any, ...] | None = None


class Statements(Protocol):
    """Runs statements on the rows of one limit, inside a transaction that sees them as they are at one instant."""

    def rows(self, *queries: Query) -> list[Sequence[Sequence[Any]]]:
        """Return the rows of each query; together they take one round trip."""


def near_sessions(want: Wanted) -> Query:
    return Query("near_sessions", (want.sid, want.ended))


def near_runs(want: Wanted, others: int = 0) -> Query:
    """`others`: so many runs in line may be of other sessions that are read in full."""
    return Query("near_runs", (want.sid, limit_parts.HEADS_READ + others, limit_parts.SILENT_READ + others))


def named_calls(want: Wanted) -> Query:
    return Query("named_calls", (want.sid,), tuple(want.calls))


FIRST_TAILS, WINDOWS, TOTALS = Query("first_tails", (TAILS_READ,)), Query("windows"), Query("totals")


class _Near(NamedTuple):
    """Sessions that a step looks at, with the runs and calls of those other than the asker."""

    sessions: list[SessionRow]
    later: list[SessionRow]
    runs: list[RunRow]
    calls: list[CallRow]


def read_parts(
    statements: Statements, header: Header, loaded: LoadedHeader, want: Wanted, now: int, *, counts: bool
) -> Parts:
    """Read what an ask has to do with at this instant of the store's clock; `counts`: also count all rows."""
    near = _near(statements, loaded, want, now)
    others = {session.session_id for session in near.sessions} - {want.sid}
    (found,) = statements.rows(near_runs(want, len(near.runs)))
    own: list[RunRow] = []
    heads: list[RunRow] = []
    silent: list[RunRow] = []
    for run in map(RunRow._make, found):
        if run.session_id == want.sid:
            own.append(run)
        elif run.session_id not in others:
            (heads if run.state == MAY_BE_GRANTED else silent).append(run)
    del heads[limit_parts.HEADS_READ :], silent[limit_parts.SILENT_READ :]
    runs = own + near.runs
    calls = near.calls
    if want.calls:
        calls = [*map(CallRow._make, statements.rows(named_calls(want))[0]), *calls]
    tails = _tails(statements, loaded, want, [*runs, *heads, *silent, *calls])
    before = None
    if len(heads) == limit_parts.HEADS_READ or len(silent) == limit_parts.SILENT_READ:
        place = limit_parts.likely_tag(header, want, runs, tails)
        before = Before(place, count_before(statements, header, place))
    return Parts(
        near.sessions,
        runs,
        calls,
        heads,
        silent,
        near.later,
        tails,
        statements.rows(WINDOWS)[0] if loaded.window_sums or counts else [],  # type: ignore[arg-type]
        before,
        Totals(*statements.rows(TOTALS)[0][0]) if counts else None,
    )


def _near(statements: Statements, loaded: LoadedHeader, want: Wanted, now: int) -> _Near:
    (found,) = statements.rows(near_sessions(want))
    sessions, later = ([SessionRow(*row) for *row, is_next in found if is_next == kind] for kind in (0, 1))
    if later and later[0].due_at <= now:
        due, following = statements.rows(
            Query("due_sessions", (want.sid, now, limit_parts.ENDINGS_READ, -1)),
            Query("later_session", (want.sid, now)),
        )
        known = {session.session_id for session in sessions}
        sessions += [session for session in map(SessionRow._make, due) if session.session_id not in known]
        later = [*map(SessionRow._make, following)]
    if loaded.counts.places:
        places, following = _places(statements, want, kept_places.AFTER + now)
        sessions, later = sessions + places, later + following
    others = [session.session_id for session in sessions if session.session_id != want.sid]
    own = statements.rows(Query("calls_of", (want.sid,)))[0] if want.reads_calls else []
    if not others:
        return _Near(sessions, later, [], [*map(CallRow._make, own)])
    found = statements.rows(*(Query(name, (sid,)) for name in ("runs_of", "calls_of") for sid in others))
    runs, calls = found[: len(others)], found[len(others) :]
    return _Near(
        sessions,
        later,
        [RunRow(*row) for rows in runs for row in rows],
        [CallRow(*row) for rows in (own, *calls) for row in rows],
    )


def _places(statements: Statements, want: Wanted, now: int) -> tuple[list[SessionRow], list[SessionRow]]:
    """Return kept places whose time has come, and the one whose time comes next."""
    due, later = statements.rows(
        Query("due_sessions", (want.sid, now, limit_parts.ENDINGS_READ, kept_places.AFTER)),
        Query("later_session", (want.sid, now)),
    )
    return [*map(SessionRow._make, due)], [*map(SessionRow._make, later)]


def _tails(
    statements: Statements, loaded: LoadedHeader, want: Wanted, rows: Sequence[RunRow | CallRow]
) -> list[TailRow]:
    query = FIRST_TAILS
    if loaded.counts.tails > TAILS_READ:
        query = Query("named_tails", (), tuple(sorted({*want.keys, *(row.key for row in rows)})))
    return [*map(TailRow._make, statements.rows(query)[0])]


def count_before(statements: Statements, header: Header, place: int) -> int:
    """Return how many runs that are not too large stand before a place."""
    (((count,),),) = statements.rows(behind(place))
    if count < BEHIND_READ:
        return header.placed_run_count - int(count)
    (((before,),),) = statements.rows(Query("before", (place,)))
    return int(before)


def behind(place: int) -> Query:
    return Query("behind", (place, BEHIND_READ))


def seat(sid: str) -> tuple[Query, Query]:
    return Query("session", (sid,)), Query("runs_of", (sid,))


def read_seat(statements: Statements, sid: str) -> SeatRows:
    """Return a session and its runs, without its calls."""
    sessions, runs = statements.rows(*seat(sid))
    if not sessions:
        return NO_ROWS
    return SeatRows(SessionRow(*sessions[0]), {run.id: run for run in map(RunRow._make, runs)}, {})
