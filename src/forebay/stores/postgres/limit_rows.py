"""Reads and writes the rows of limits: what belongs to one step of a transaction is one text, and one round trip."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg.errors import InvalidSqlStatementName
from psycopg.pq import Escaping

from forebay.stores.postgres.limit_queries import execute, prepare, written_out
from forebay.stores.sql import limit_parts, limit_reading
from forebay.stores.sql.limit_changes import Beat, Changes
from forebay.stores.sql.limit_parts import Parts, Wanted
from forebay.stores.sql.limit_reading import Query
from forebay.stores.sql.limit_rows import Header, LoadedHeader, Rows, SeatRows, encode, whole_rows

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

    from forebay.stores.postgres.connection import Link

_HEADER_COLUMNS = len(Header._fields)
_PARTS = 5  # sessions, runs, calls, tails, windows
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
    """A limit that this transaction has locked, None where there is none, and the time at which it was."""

    raw: int
    reader: LimitReader | None


class Guess(NamedTuple):
    """What an ask is likely to need of a limit that lies in rows, as far as its last exchange tells.

    A wrong guess costs a round trip. `is_crowded`: there are more runs in line than a step reads.
    """

    limit: int
    has_windows: bool = False
    is_crowded: bool = False

    def queries(self, want: Wanted, *, beats: bool) -> list[Query]:
        if beats:
            return [*limit_reading.seat(want.sid)]
        found = [limit_reading.near_sessions(want), limit_reading.near_runs(want), limit_reading.FIRST_TAILS]
        if want.calls:
            found.append(limit_reading.named_calls(want))
        if self.has_windows:
            found.append(limit_reading.WINDOWS)
        if self.is_crowded:
            key = want.keys[0] if want.keys else ""
            found.append(Query(_LIKELY_BEHIND, (want.sid, key, limit_reading.BEHIND_READ)))
        return found


_HURRIES_S = 1.0
_HURRIED_PAUSE_S = 0.0005
_LIKELY_BEHIND = "likely_behind"


def lock(link: Link, key: Key, clock: Clock, limit: int, queries: Sequence[Query]) -> Locked:
    """Begin a transaction that has the limit for itself; if it has this id, keep what the queries find in its rows."""
    asked = [_query(link, limit, query) for query in queries]
    replies = _say(link, link.begin.encode(), _statement(link, "lock", *key), *asked)[-len(asked) - 1 :]
    locked = replies[0]
    header, raw = _header(locked, 1), clock.at(int(locked.get_value(0, 0) or 0))
    if header is None:
        return Locked(raw, None)
    reader = LimitReader(link, key, header, raw)
    if header.id == limit:
        reader.keep(queries, replies[1:])
    return Locked(raw, reader)


def lock_whole(link: Link, key: Key, clock: Clock) -> Locked:
    """Begin a transaction that has the limit for itself, and read all of it.

    It comes before those who wait for the lock: it takes the lock in a moment in which nobody has it yet.
    """
    gives_up_at = time.monotonic() + _HURRIES_S
    statement, waits = _statement(link, "lock_free", *key), False
    while True:
        locked = _say(link, link.begin.encode(), statement)[-1]
        header = _header(locked, 1)
        if header is not None or waits or locked.get_value(0, 1 + _HEADER_COLUMNS) == b"f":
            raw = clock.at(int(locked.get_value(0, 0) or 0))
            return Locked(raw, LimitReader(link, key, header, raw) if header else None)
        link.say(b"ROLLBACK")
        if time.monotonic() >= gives_up_at:
            statement, waits = _statement(link, "lock", *key), True
        time.sleep(_HURRIED_PAUSE_S)


class LimitReader:
    """Reads rows of a limit inside the transaction that has its header locked; what was read with the lock is there."""

    guess: Guess | None = None
    """For the next ask of the same process, None where the limit has no rows."""

    def __init__(self, link: Link, key: Key, header: Header, raw: int) -> None:
        self._link = link
        self._key = key
        self.header = header
        self._raw = raw
        self._kept: dict[Query, Sequence[Sequence[Any]]] = {}

    def keep(self, queries: Sequence[Query], replies: Sequence[PGresult]) -> None:
        for query, reply in zip(queries, replies, strict=True):
            rows = _loaded(reply, 0)
            if query.name == _LIKELY_BEHIND:
                ((place, behind),) = rows
                query, rows = limit_reading.behind(place), [[behind]]  # noqa: PLW2901 - the query that this answers
            elif query == limit_reading.WINDOWS:
                rows = [(name, bytes.fromhex(entries)) for name, entries in rows]
            self._kept[query] = rows

    def rows(self, *queries: Query) -> list[Sequence[Sequence[Any]]]:
        missing = [query for query in queries if query not in self._kept]
        if missing:
            limit = self.header.id
            self.keep(missing, _say(self._link, *(_query(self._link, limit, query) for query in missing)))
        return [self._kept[query] for query in queries]

    def seat(self, sid: str) -> SeatRows:
        self.guess = Guess(self.header.id)
        return limit_reading.read_seat(self, sid)

    def parts(self, loaded: LoadedHeader, want: Wanted) -> Parts:
        header = self.header
        is_crowded = loaded.counts.placed_runs > limit_parts.HEADS_READ
        self.guess = Guess(header.id, bool(loaded.window_sums), is_crowded)
        now = max(header.last_step_at, self._raw + header.clock_offset_ms)
        counts = header.version % limit_parts.CHECKED_EVERY == 0
        return limit_reading.read_parts(self, header, loaded, want, now, counts=counts)

    def before(self, tag: int) -> int:
        return limit_reading.count_before(self, self.header, tag)

    def whole(self) -> Rows:
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


def find(link: Link, key: Key, session: str, clock: Clock) -> Read:
    """Read a limit with no session but this one."""
    return _read(_say(link, _statement(link, "find", *key, session))[-1], clock)


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


def _query(link: Link, limit: int, query: Query) -> bytes:
    name, arguments, each = query
    return _statement(link, name, limit, *arguments, *([] if each is None else [encode(each)]))


def _header(reply: PGresult, first: int) -> Header | None:
    if reply.get_value(0, first) is None:
        return None
    values = [reply.get_value(0, first + column) or b"" for column in range(_HEADER_COLUMNS)]
    numbers, texts = values[:_NUMBERS], values[_NUMBERS:]
    return Header(*(int(each) for each in numbers), *(each.decode() for each in texts))  # type: ignore[arg-type]


def _rows(reply: PGresult) -> Rows:
    lists = [_loaded(reply, column) for column in range(1 + _HEADER_COLUMNS, reply.nfields)]
    sessions, runs, calls, tails, windows = [*lists, [], []][:_PARTS]
    return whole_rows(sessions, runs, calls, tails, [(name, bytes.fromhex(entries)) for name, entries in windows])


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
    statements = [_statement(link, "put_packed", limit, *change[:5])]
    if any(changes[1:]):
        statements = [_put(link, limit, changes)]
    if change.eras:
        statements.append(_statement(link, "put_header", limit, change.eras, change.people))
    _say(link, *statements, b"COMMIT", *tells)


def _put(link: Link, limit: int, changes: Changes) -> bytes:
    return _statement(
        link,
        "put",
        limit,
        *changes.header[:5],
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
