"""Reads and replaces the rows of limits: what belongs to one step of a transaction is one text, and one round trip."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from psycopg.errors import InvalidSqlStatementName
from psycopg.pq import Escaping

from forebay.errors import StoreCorrupt
from forebay.stores.postgres.limit_queries import execute, prepare, written_out

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

    from forebay.model.limit_record import Record
    from forebay.stores.postgres.connection import Link

# In ASCII, whatever the encoding of the database.
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Key(NamedTuple):
    environment: str
    name: str


class Told(NamedTuple):
    """What is said on a channel."""

    channel: str
    payload: str


def lock(link: Link, key: Key) -> tuple[Record | None, int]:
    """Begin a transaction that has the record for itself; the record, and the time at which it had it."""
    return _found(_say(link, link.begin.encode(), _statement(link, "lock", *key)), key)


def read(link: Link, key: Key) -> tuple[Record | None, int]:
    return _found(_say(link, _statement(link, "read", *key)), key)


def read_many(link: Link, keys: Sequence[Key]) -> list[tuple[Record | None, int]]:
    """In one round trip."""
    _say(link, _statement(link, "read", *keys[0]))  # its statements are prepared from here on
    replies = link.say(b"; ".join(_statement(link, "read", *key) for key in keys))
    return [_found(reply, key) for reply, key in zip(replies, keys, strict=True)]


def clock(link: Link) -> int:
    """Return the server's clock; needs no table."""
    return int(link.say(written_out("clock"))[0].get_value(0, 0) or 0)


def replace(link: Link, key: Key, record: Record, told: Sequence[Told] = ()) -> None:
    """Write what was locked, end the transaction, and tell others of it."""
    tells = [_statement(link, "tell", *each) for each in told]
    _say(link, _statement(link, "replace", _encode(record), *key), b"COMMIT", *tells)


def add(link: Link, key: Key, record: Record) -> bool:
    """Whether there was none; ends the transaction."""
    added = link.say(b"; ".join((_statement(link, "add", *key, _encode(record)), b"COMMIT")))[0]
    return added.ntuples == 1


def names(link: Link, environment: str) -> list[str]:
    found = _say(link, _statement(link, "names", environment))
    return sorted((found.get_value(row, 0) or b"").decode() for row in range(found.ntuples))


def _statement(link: Link, name: str, *arguments: str) -> bytes:
    escaping = Escaping(link.pgconn)
    literals = [bytes(escaping.escape_literal(each.encode())) for each in arguments]
    if link.shared:
        return written_out(name, *literals)
    if not link.prepared:
        link.say(prepare())
        link.prepared = True
    return execute(name, *literals)


def _say(link: Link, *statements: bytes) -> PGresult:
    """The reply of the last."""
    try:
        return link.say(b"; ".join(statements))[-1]
    except InvalidSqlStatementName:
        # Somebody between us and the server has tidied up.
        link.prepared = False
        raise


def _found(reply: PGresult, key: Key) -> tuple[Record | None, int]:
    text, now = reply.get_value(0, 0), int(reply.get_value(0, 1) or 0)
    if text is None:
        return None, now
    try:
        return json.loads(text.decode()), now
    except ValueError as error:
        raise StoreCorrupt(
            f"The record of limit {key.name!r} cannot be read: {error}.",
            remedy="Delete its row from forebay_limits: the limit is then learned anew.",
        ) from error
