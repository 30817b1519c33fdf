"""Reads and writes the rows of limits: what belongs to one step of a transaction is one text, and one round trip."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg.errors import InvalidSqlStatementName
from psycopg.pq import Escaping

from forebay.stores.postgres.limit_queries import execute, prepare, written_out
from forebay.stores.sql import limit_parts
from forebay.stores.sql.limit_changes import Beat, Changes
from forebay.stores.sql.limit_parts import Before, Parts, Totals, Wanted
from forebay.stores.sql.limit_rows import (
    NO_ROWS,
    CallRow,
    Header,
    Rows,
    RunRow,
    SeatRows,
    SessionRow,
    TailRow,
    encode,
    gathered,
)

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

    from forebay.stores.postgres.connection import Link

_HEADER_COLUMNS = len(Header._fields)
_TEXTS = 4  # the last columns of a header
_NUMBERS = _HEADER_COLUMNS - _TEXTS


class Key(NamedTuple):
    environment: str
    name: str


class Told(NamedTuple):
    """What is said on a channel."""

    channel: str
    payload: str


class Clock(NamedTuple):
    """What the time is: by the server, or `instead` of it, and `shift` ms later."""

    instead: int | None
    shift: int

    def at(self, server: int) -> int:
        return (server if self.instead is None else self.instead) + self.shift


class Locked(NamedTuple):
    """A header that this transaction has locked, None where there is none, and the time at which it was."""

    header: Header | None
    raw: int
    reader: LimitReader


def lock(link: Link, key: Key, clock: Clock, plan: Plan) -> Locked:
    """Begin a transaction that has the limit for itself, and read what the step is likely to need."""
    statements = [link.begin.encode(), _statement(link, "lock", *key)]
    if plan.limit and plan.beats:
        statements.append(_statement(link, "beat", plan.limit, plan.want.sid))
    elif plan.limit:
        statements.append(_parts_statement(link, plan.limit, plan.want, clock))
        if plan.counts:
            statements.append(_statement(link, "totals", plan.limit))
    replies = _say(link, *statements)[-len(statements) + 1 :]
    locked = replies[0]
    raw = clock.at(int(locked.get_value(0, 0) or 0))
    header = _header(locked, 1)
    reader = LimitReader(link, key, clock, header)
    if header is not None and header.id == plan.limit:
        reader.keep(plan, replies[1:])
    return Locked(header, raw, reader)


def lock_whole(link: Link, key: Key, clock: Clock) -> Locked:
    """Begin a transaction that has the limit for itself, and read all of it."""
    statements = [link.begin.encode(), _statement(link, "lock", *key), _statement(link, "read", *key)]
    locked, read = _say(link, *statements)[-2:]
    header = _header(locked, 1)
    reader = LimitReader(link, key, clock, header)
    reader.read_reply = read
    return Locked(header, clock.at(int(locked.get_value(0, 0) or 0)), reader)


class Plan(NamedTuple):
    """What to read with the lock: of the limit that had this id the last time, 0 where nobody knows.

    `counts`: the step counts all rows.
    """

    limit: int
    want: Wanted
    beats: bool
    counts: bool


class LimitReader:
    """Reads rows of a limit inside the transaction that has its header locked; what was read with the lock is there."""

    beat_reply: PGresult | None = None
    parts_reply: PGresult | None = None
    totals_reply: PGresult | None = None
    read_reply: PGresult | None = None

    def __init__(self, link: Link, key: Key, clock: Clock, header: Header | None) -> None:
        self._link = link
        self._key = key
        self._clock = clock
        self._limit = header.id if header else 0

    def keep(self, plan: Plan, replies: Sequence[PGresult]) -> None:
        """Keep what was read with the lock."""
        if plan.beats:
            (self.beat_reply,) = replies
        else:
            self.parts_reply, *totals = replies
            self.totals_reply = totals[0] if totals else None

    def seat(self, sid: str) -> SeatRows:
        reply = self.beat_reply
        if reply is None:
            (reply,) = _say(self._link, _statement(self._link, "beat", self._limit, sid))
        sessions, runs = (_loaded(reply, column) for column in range(2))
        if not sessions:
            return NO_ROWS
        return SeatRows(SessionRow(*sessions[0]), {run[1]: RunRow(*run) for run in runs}, {})

    def parts(self, want: Wanted) -> Parts:
        reply = self.parts_reply
        if reply is None:
            (reply,) = _say(self._link, _parts_statement(self._link, self._limit, want, self._clock))
        sessions, runs, calls, heads, silent, later, tails, windows, before = (
            _loaded(reply, column) for column in range(9)
        )
        totals = self.totals_reply
        return Parts(
            [SessionRow(*row) for row in sessions],
            [RunRow(*row) for row in runs],
            [CallRow(*row) for row in calls],
            [RunRow(*row) for row in heads],
            [RunRow(*row) for row in silent],
            [SessionRow(*row) for row in later],
            [TailRow(*row) for row in tails],
            [(name, bytes.fromhex(entries)) for name, entries in windows],
            Before(*before) if before else None,
            None if totals is None else Totals(*(int(totals.get_value(0, column) or 0) for column in range(4))),
        )

    def before(self, tag: int) -> int:
        (reply,) = _say(self._link, _statement(self._link, "before", self._limit, tag))
        return int(reply.get_value(0, 0) or 0)

    def whole(self) -> Rows:
        reply = self.read_reply
        if reply is None:
            (reply,) = _say(self._link, _statement(self._link, "read", *self._key))
        return _rows(reply)


class Read(NamedTuple):
    """A limit as it was read without a lock."""

    header: Header | None
    raw: int
    rows: Rows

    def whole(self) -> Rows:
        return self.rows


def read(link: Link, key: Key, clock: Clock) -> Read:
    return _read(_say(link, _statement(link, "read", *key))[-1], clock)


def read_many(link: Link, keys: Sequence[Key], clock: Clock) -> list[Read]:
    """In one round trip."""
    _say(link, _statement(link, "read", *keys[0]))  # its statements are prepared from here on
    replies = _say(link, *(_statement(link, "read", *key) for key in keys))
    return [_read(reply, clock) for reply in replies]


def _read(reply: PGresult, clock: Clock) -> Read:
    header = _header(reply, 1)
    return Read(header, clock.at(int(reply.get_value(0, 0) or 0)), _rows(reply))


def server_clock(link: Link) -> int:
    """Return the server's clock; needs no table."""
    return int(link.say(written_out("clock"))[0].get_value(0, 0) or 0)


def names(link: Link, environment: str) -> list[str]:
    found = _say(link, _statement(link, "names", environment))[-1]
    return sorted((found.get_value(row, 0) or b"").decode() for row in range(found.ntuples))


def _parts_statement(link: Link, limit: int, want: Wanted, clock: Clock) -> bytes:
    return _statement(
        link,
        "parts",
        limit,
        want.sid,
        encode(want.calls),
        encode(want.keys),
        want.ended,
        clock.instead,
        clock.shift,
        limit_parts.ENDINGS_READ,
        limit_parts.HEADS_READ,
        limit_parts.SILENT_READ,
    )


def _header(reply: PGresult, first: int) -> Header | None:
    if reply.get_value(0, first) is None:
        return None
    values = [reply.get_value(0, first + column) or b"" for column in range(_HEADER_COLUMNS)]
    numbers, texts = values[:_NUMBERS], values[_NUMBERS:]
    return Header(*(int(each) for each in numbers), *(each.decode() for each in texts))  # type: ignore[arg-type]


def _rows(reply: PGresult) -> Rows:
    sessions, runs, calls, tails, windows = (_loaded(reply, 1 + _HEADER_COLUMNS + column) for column in range(5))
    return Rows(
        gathered(
            [SessionRow(*row) for row in sessions], [RunRow(*row) for row in runs], [CallRow(*row) for row in calls]
        ),
        {json.loads(row[0]): TailRow(*row) for row in tails},
        {name: bytes.fromhex(entries) for name, entries in windows},
    )


def _loaded(reply: PGresult, column: int) -> Any:  # noqa: ANN401 - rows as JSON
    text = reply.get_value(0, column)
    return json.loads(text) if text else []


# Writing.


def write(link: Link, limit: int, changes: Changes | Beat, told: Sequence[Told] = ()) -> None:
    """Write what a step has changed, end the transaction, and tell others of it."""
    tells = [_statement(link, "tell", *each) for each in told]
    if isinstance(changes, Beat):
        session = changes.session
        fields = (
            session.session_id,
            session.ends_at,
            session.due_at,
            session.request_number,
            session.grant_number,
            session.next_call_id,
        )
        _say(link, _statement(link, "put_beat", limit, changes.last_step_at, *fields), b"COMMIT")
        return
    change = changes.header
    statements = [
        _statement(
            link,
            "put",
            limit,
            change.last_step_at,
            change.clock_offset_ms,
            change.virtual_time,
            change.placed_run_count,
            change.head,
            _list(changes.dropped_sessions),
            _list(changes.sessions),
            _list(changes.granted),
            _list(changes.dropped_runs),
            _list(changes.runs),
            _list(changes.dropped_calls),
            _list(changes.calls),
            _list(changes.dropped_tails),
            _list(changes.tails),
            _list(changes.dropped_windows),
            _list([(window.name, window.entries.hex()) for window in changes.windows]),
        )
    ]
    if change.eras:
        statements.append(_statement(link, "put_header", limit, change.eras, change.people))
    _say(link, *statements, b"COMMIT", *tells)


def _list(rows: Sequence[object]) -> str:
    return encode(rows) if rows else "[]"


def add(link: Link, key: Key, changes: Changes) -> bool:
    """Whether there was none; ends the transaction."""
    change = changes.header
    fields = (
        change.last_step_at,
        change.clock_offset_ms,
        change.virtual_time,
        change.placed_run_count,
        change.head,
        change.eras,
        change.people,
    )
    (added,) = _say(link, _statement(link, "add", *key, *fields))
    if added.ntuples == 0:
        link.say(b"COMMIT")
        return False
    write(link, int(added.get_value(0, 0) or 0), changes)
    return True


def _statement(link: Link, name: str, *arguments: str | int | None) -> bytes:
    escaping = Escaping(link.pgconn)
    literals = [
        bytes(escaping.escape_literal(each.encode()))
        if isinstance(each, str)
        else b"NULL"
        if each is None
        else b"'%d'" % each
        for each in arguments
    ]
    if link.shared:
        return written_out(name, *literals)
    if not link.prepared:
        link.say(prepare())
        link.prepared = True
    return execute(name, *literals)


def _say(link: Link, *statements: bytes) -> list[PGresult]:
    try:
        return link.say(b"; ".join(statements))
    except InvalidSqlStatementName:
        # Somebody between us and the server has tidied up.
        link.prepared = False
        raise
