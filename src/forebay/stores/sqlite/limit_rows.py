"""Reads and writes the rows of limits in SQLite."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import apsw

from forebay.stores.sql import limit_parts
from forebay.stores.sql.limit_changes import Beat, Changes
from forebay.stores.sql.limit_parts import Before, Parts, Totals, Wanted
from forebay.stores.sql.limit_rows import (
    MAY_BE_GRANTED,
    NO_ROWS,
    UNCONFIRMED,
    CallRow,
    Header,
    Rows,
    RunRow,
    SeatRows,
    SessionRow,
    TailRow,
    gathered,
)
from forebay.stores.sqlite.boot_clock import Moment, passed
from forebay.stores.sqlite.limit_queries import sql


class Key(NamedTuple):
    environment: str
    name: str


class Found(NamedTuple):
    """A header as it was written at a moment, when the clock of the rules said `raw`."""

    header: Header
    raw: int
    at: Moment

    def raw_at(self, now: Moment) -> int:
        return self.raw + passed(self.at, now)


def find(db: apsw.Connection, key: Key) -> Found | None:
    for row in _rows(db, "header", *key):
        *header, raw, boot, ticks, wall = row
        return Found(Header(*header), raw, Moment(boot, ticks, wall))
    return None


def find_version(db: apsw.Connection, key: Key) -> tuple[int, int] | None:
    """Return the id of a limit and how often it was written."""
    found: list[tuple[int, int]] = _rows(db, "version", *key)
    return found[0] if found else None


def names(db: apsw.Connection, environment: str) -> list[str]:
    return [name for (name,) in _rows(db, "names", environment)]


@contextmanager
def writing(db: apsw.Connection) -> Iterator[None]:
    """A transaction that no other writes beside."""
    return _transaction(db, "BEGIN IMMEDIATE")


@contextmanager
def reading(db: apsw.Connection) -> Iterator[None]:
    """A transaction that sees the file as it is at its first statement."""
    return _transaction(db, "BEGIN")


def _transaction(db: apsw.Connection, begin: str) -> Iterator[None]:
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


class LimitReader:
    """Reads rows of the limit with this header, at an instant of the store's clock, inside a transaction."""

    def __init__(self, db: apsw.Connection, header: Header, raw: int) -> None:
        self._db = db
        self._header = header
        self._limit = header.id
        self._now = max(header.last_step_at, raw + header.clock_offset_ms)

    def seat(self, sid: str) -> SeatRows:
        sessions = self._sessions("session", sid)
        if not sessions:
            return NO_ROWS
        return SeatRows(sessions[0], {run.id: run for run in self._runs("runs_of", sid)}, {})

    def parts(self, want: Wanted) -> Parts:
        due = self._sessions("due_sessions", self._now, want.sid, limit_parts.ENDINGS_READ)
        sessions = [*self._sessions("session", want.sid), *due]
        known = [session.session_id for session in sessions]
        if want.ended and want.ended not in known:
            sessions += self._sessions("session", want.ended)
        runs = [run for sid in known for run in self._runs("runs_of", sid)]
        calls = [call for call_id in want.calls for call in self._calls("call", want.sid, call_id)]
        calls += [
            call
            for each in sessions
            if each.session_id != want.sid
            for call in self._calls("calls_of", each.session_id)
        ]
        heads: list[RunRow] = []
        silent: list[RunRow] = []
        if self._header.placed_run_count:
            but = json.dumps(known)
            heads = self._runs("line", MAY_BE_GRANTED, but, limit_parts.HEADS_READ)
            silent = self._runs("line", UNCONFIRMED, but, limit_parts.SILENT_READ)
        keys = {*want.keys, *(run.key for some in (runs, heads, silent) for run in some)}
        tails = [tail for key in sorted(keys) for tail in self._tails("tail", key)]
        before = None
        if len(heads) == limit_parts.HEADS_READ or len(silent) == limit_parts.SILENT_READ:
            tag = limit_parts.likely_tag(self._header, want, runs, tails)
            before = Before(tag, self.before(tag))
        return Parts(
            sessions,
            runs,
            calls,
            heads,
            silent,
            self._sessions("later_session", self._now, want.sid),
            tails,
            _rows(self._db, "windows", self._limit),
            before,
            self._totals() if self._header.version % limit_parts.CHECKED_EVERY == 0 else None,
        )

    def before(self, tag: int) -> int:
        ((count,),) = _rows(self._db, "before", self._limit, tag, self._limit, tag)
        return int(count)

    def whole(self) -> Rows:
        seats = gathered(self._sessions("sessions"), self._runs("runs"), self._calls("calls"))
        tails = {json.loads(tail.key): tail for tail in self._tails("tails")}
        return Rows(seats, tails, dict(_rows(self._db, "windows", self._limit)))

    def _totals(self) -> Totals:
        return Totals(*_rows(self._db, "totals", *[self._limit] * 4)[0])

    def _sessions(self, name: str, *arguments: Any) -> list[SessionRow]:  # noqa: ANN401 - what SQL takes
        return [SessionRow(*row) for row in _rows(self._db, name, self._limit, *arguments)]

    def _runs(self, name: str, *arguments: Any) -> list[RunRow]:  # noqa: ANN401 - what SQL takes
        return [RunRow(*row) for row in _rows(self._db, name, self._limit, *arguments)]

    def _calls(self, name: str, *arguments: Any) -> list[CallRow]:  # noqa: ANN401 - what SQL takes
        return [CallRow(*row) for row in _rows(self._db, name, self._limit, *arguments)]

    def _tails(self, name: str, *arguments: Any) -> list[TailRow]:  # noqa: ANN401 - what SQL takes
        return [TailRow(*row) for row in _rows(self._db, name, self._limit, *arguments)]


def _rows(db: apsw.Connection, name: str, *arguments: Any) -> list[Any]:  # noqa: ANN401 - what SQL takes
    # All of them: a statement that is not at its end keeps the file as it was for its connection.
    return db.execute(sql(name), arguments).fetchall()


def add(db: apsw.Connection, key: Key, changes: Changes, raw: int, now: Moment) -> None:
    """Add a limit that is not there."""
    (((limit,)),) = _rows(db, "add_header", *changes.header, raw, *now, *key)
    _write_parts(db, limit, changes)


def write(db: apsw.Connection, header: Header, changes: Changes | Beat, raw: int, now: Moment) -> None:
    limit = header.id
    if isinstance(changes, Beat):
        db.execute(sql("put_beat"), (changes.last_step_at, raw, *now, limit))
        db.execute(sql("put_session"), (limit, *changes.session))
        return
    change = changes.header
    if change.eras:
        db.execute(sql("put_whole_header"), (*change, raw, *now, limit))
    else:
        db.execute(sql("put_header"), (*change[:5], raw, *now, limit))
    _write_parts(db, limit, changes)


def _write_parts(db: apsw.Connection, limit: int, changes: Changes) -> None:
    _run(db, "drop_session", limit, [(sid,) for sid in changes.dropped_sessions])
    for granted in changes.granted:
        db.execute(sql("hold_runs"), (granted.next_call_id, granted.grant_number, limit, granted.session_id))
        arguments = (
            granted.next_call_id,
            granted.grant_number,
            granted.unconfirmed,
            granted.new_call_count,
            limit,
            granted.session_id,
        )
        db.execute(sql("grant_session"), arguments)
    _run(db, "put_session", limit, changes.sessions)
    _run(db, "drop_run", limit, changes.dropped_runs)
    _run(db, "put_run", limit, changes.runs)
    _run(db, "drop_call", limit, changes.dropped_calls)
    _run(db, "put_call", limit, changes.calls)
    _run(db, "drop_tail", limit, [(key,) for key in changes.dropped_tails])
    _run(db, "put_tail", limit, changes.tails)
    _run(db, "drop_window", limit, [(name,) for name in changes.dropped_windows])
    _run(db, "put_window", limit, changes.windows)


def _run(db: apsw.Connection, name: str, limit: int, rows: Iterable[Sequence[Any]]) -> None:
    for row in rows:
        db.execute(sql(name), (limit, *row))
