"""Reads and writes the rows of limits in SQLite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import apsw

from forebay.stores.sql import limit_parts, limit_reading
from forebay.stores.sql.limit_changes import Beat, Changes
from forebay.stores.sql.limit_parts import Parts, Wanted
from forebay.stores.sql.limit_reading import Query
from forebay.stores.sql.limit_rows import Header, HeaderChange, LoadedHeader, Rows, SeatRows, whole_rows
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

    def rows(self, *queries: Query) -> list[Sequence[Sequence[Any]]]:
        return [self._rows(query) for query in queries]

    def _rows(self, query: Query) -> list[Any]:
        name, arguments, each = query
        if each is None:
            return _rows(self._db, name, self._limit, *arguments)
        return [row for one in each for row in _rows(self._db, name, self._limit, *arguments, one)]

    def seat(self, sid: str) -> SeatRows:
        return limit_reading.read_seat(self, sid)

    def parts(self, loaded: LoadedHeader, want: Wanted) -> Parts:
        counts = self._header.version % limit_parts.CHECKED_EVERY == 0
        return limit_reading.read_parts(self, self._header, loaded, want, self._now, counts=counts)

    def before(self, tag: int) -> int:
        return limit_reading.count_before(self, self._header, tag)

    def one(self, sid: str) -> Rows:
        """Read one session and nothing else."""
        sessions, runs, calls = self.rows(*(Query(name, (sid,)) for name in ("session", "runs_of", "calls_of")))
        return whole_rows(sessions, runs, calls, [], [])

    def whole(self) -> Rows:
        names = ("sessions", "runs", "calls", "tails", "windows")
        sessions, runs, calls, tails, windows = self.rows(*map(Query, names))
        return whole_rows(sessions, runs, calls, tails, windows)


def _rows(db: apsw.Connection, name: str, *arguments: Any) -> list[Any]:  # noqa: ANN401 - what SQL takes
    # All of them: a statement that is not at its end keeps the file as it was for its connection.
    return db.execute(sql(name), arguments).fetchall()


def add(db: apsw.Connection, key: Key, changes: Changes, raw: int, now: Moment) -> bool:
    """Whether there was none."""
    added = _rows(db, "add_header", *changes.header, raw, *now, *key)
    for (limit,) in added:
        _write_parts(db, limit, changes)
    return bool(added)


def write(db: apsw.Connection, header: Header, changes: Changes | Beat, raw: int, now: Moment) -> bool:
    """Whether nobody has written the limit since its header was read; if somebody has, nothing is written."""
    if isinstance(changes, Changes) and not any(changes[1:]):
        return _put_header(db, header, changes.header, raw, now)
    with writing(db):
        return put(db, header, changes, raw, now)


def put(db: apsw.Connection, header: Header, changes: Changes | Beat, raw: int, now: Moment) -> bool:
    """Do the same inside a transaction that no other writes beside."""
    if isinstance(changes, Beat):
        if not _is_changed(db, "put_beat", changes.last_step_at, raw, *now, header.id, header.version):
            return False
        db.execute(sql("put_session"), (header.id, *changes.session))
        return True
    if not _put_header(db, header, changes.header, raw, now):
        return False
    _write_parts(db, header.id, changes)
    return True


def _put_header(db: apsw.Connection, header: Header, change: HeaderChange, raw: int, now: Moment) -> bool:
    if change.eras:
        return _is_changed(db, "put_whole_header", *change, raw, *now, header.id, header.version)
    return _is_changed(db, "put_header", *change[:5], raw, *now, header.id, header.version)


def _is_changed(db: apsw.Connection, name: str, *arguments: Any) -> bool:  # noqa: ANN401 - what SQL takes
    db.execute(sql(name), arguments)
    return db.changes() == 1


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
