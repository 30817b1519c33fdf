"""Runs steps on a PostgreSQL connection: a batch is one round trip, and the last one carries the commit."""

from __future__ import annotations

import select
import time
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

from forebay.stores.postgres.binding import bound
from forebay.stores.postgres.connection import Link
from forebay.stores.postgres.lists import choose_list
from forebay.stores.postgres.trouble import Silent
from forebay.stores.sql.statement import Batch, Statement, Steps
from forebay.stores.sql.transaction import Transaction

T = TypeVar("T")
_BINARY = 1
_BEGIN = b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_CLOCK = b"SELECT extract(epoch FROM clock_timestamp())::float8"
_NOTIFY = b"SELECT pg_notify($1, '')"


# What each connection's server has prepared; that outlives a rollback.
_PREPARED: weakref.WeakKeyDictionary[Link, set[bytes]] = weakref.WeakKeyDictionary()


class Message(NamedTuple):
    """One statement on its way: prepared under a name, or as it is."""

    text: bytes
    values: list[bytes | None]
    name: bytes = b""


class Driver:
    """One step on one connection. `clock` is the time of whoever has one of their own, in tests."""

    def __init__(self, link: Link, tx: Transaction, *, channel: str, clock: float | None) -> None:
        self._link = link
        self._tx = tx
        self._channel = channel.encode()
        self._clock = clock
        self._begun = False
        self.ended = False  # the commit is on its way, or done
        if clock is not None:
            tx.now = clock

    @property
    def is_repeatable(self) -> bool:
        """Whether the step may run again although nobody knows what became of its last batch, if that was sent."""
        return self._tx.repeatable or not self.ended

    def write(self, steps: Steps[T]) -> T:
        """In one transaction."""
        answer = self._drive(steps, transaction=True)
        if self._begun and not self.ended:
            self._send([*self._last()])
        return answer

    def read(self, steps: Steps[T]) -> T:
        """Each batch by itself."""
        return self._drive(steps, transaction=False)

    def _drive(self, steps: Steps[T], *, transaction: bool) -> T:
        try:
            batch = next(steps)
            while True:
                batch = steps.send(self._answers(batch, transaction=transaction))
        except StopIteration as end:
            answer: T = end.value
            return answer

    def _answers(self, batch: Batch, *, transaction: bool) -> list[list[Any]]:
        first: list[Message] = []
        # A batch that is first and last is a transaction by itself, unless a pooler needs our settings in it.
        if transaction and not self._begun and (not batch.last or self._link.shared):
            first = [*self._first()]
            self._begun = True
        ours = [*map(self._message, batch.statements)]
        ends = [*self._last()] if batch.last else []
        # The time is read after the locks: who waited for another is later than that one.
        timed = self._clock is None and not batch.last
        if timed:
            ends = [Message(_CLOCK, [], b"forebay clock")]
        replies = self._send([*first, *ours, *ends])
        if timed:
            self._tx.now = replies[-1][0][0]
        return replies[len(first) : len(first) + len(ours)]

    def _first(self) -> Iterable[Message]:
        yield Message(_BEGIN, [], b"forebay begin")
        if self._link.shared:
            # The other settings are about plans that are made once: here each is made for its statement.
            for name, value in self._link.settings.items():
                if name.endswith("_timeout"):
                    yield Message(f"SET LOCAL {name} = '{value}'".encode(), [])

    def _last(self) -> Iterable[Message]:
        self.ended = True
        if self._tx.woken:
            yield Message(_NOTIFY, [self._channel], b"forebay notify")
        if self._begun:
            yield Message(b"COMMIT", [], b"forebay commit")

    def _message(self, statement: Statement) -> Message:
        name, arguments = choose_list(statement)
        given = None
        if name.startswith("list_"):
            given = frozenset(key for key, value in arguments.items() if value is not None)
        known = bound(name, given)
        instants = {"now": self._tx.now or None, "clock": self._clock}
        return Message(known.text, known.values({**instants, **arguments}), known.name)

    def _send(self, messages: list[Message]) -> list[list[Any]]:
        """The rows of each; the first error is raised when all is read, and nothing after it was done."""
        link = self._link
        pgconn = link.pgconn
        if self._begun and (farewell := link.hear_farewell()) is not None:
            self.ended = False  # it was not sent
            link.close()
            raise farewell
        pgconn.enter_pipeline_mode()
        try:
            known = _PREPARED.setdefault(link, set())
            unknown: list[bytes] = []
            for text, values, name in messages:
                if not name or link.shared:
                    unknown.append(b"")
                    pgconn.send_query_params(text, values, result_format=_BINARY)
                elif name in known or name in unknown:
                    unknown.append(b"")
                    pgconn.send_query_prepared(name, values, result_format=_BINARY)
                else:
                    unknown.append(name)
                    pgconn.send_prepare(name, text)
                    pgconn.send_query_prepared(name, values, result_format=_BINARY)
            pgconn.pipeline_sync()
            replies = _received(link, unknown, known)
            if pgconn.status == ConnStatus.BAD:
                link.close()
            else:
                pgconn.exit_pipeline_mode()
        except BaseException as error:
            farewell = link.hear_farewell() if isinstance(error, psycopg.OperationalError) else None
            # Half of a conversation is of no use to the next one.
            link.close()
            if farewell is None:
                raise
            raise farewell from error
        for reply in replies:
            if reply.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(reply)
        return [_rows(link, reply) for reply in replies]


def _received(link: Link, unknown: list[bytes], known: set[bytes]) -> list[PGresult]:
    pgconn = link.pgconn
    until = time.monotonic() + link.timeout_s
    while pgconn.flush():
        _wait(link, select.POLLIN | select.POLLOUT, until)
        pgconn.consume_input()
    replies: list[PGresult] = []
    for name in unknown:
        if name:
            prepared = _reply(link, until)
            if prepared.status == ExecStatus.COMMAND_OK:
                known.add(name)
            elif prepared.status == ExecStatus.FATAL_ERROR:
                replies.append(prepared)
        replies.append(_reply(link, until))
        if _is_last_word(replies[-1]) and pgconn.status == ConnStatus.BAD:
            return replies
    end = _result(link, until)
    if end is not None and end.status == ExecStatus.FATAL_ERROR:
        replies.append(end)  # the commit was refused
        _result(link, until)  # the nothing that follows it
        end = _result(link, until)
    if end is None or end.status != ExecStatus.PIPELINE_SYNC:
        raise psycopg.OperationalError("the connection was lost")
    return replies


def _is_last_word(reply: PGresult) -> bool:
    """Whether a server says why it ends the connection; what libpq says itself has no SQLSTATE."""
    return reply.status == ExecStatus.FATAL_ERROR and reply.error_field(DiagnosticField.SQLSTATE) is not None


def _reply(link: Link, until: float) -> PGresult:
    """One statement's, with the nothing that follows it."""
    reply = _result(link, until)
    if reply is None:
        raise psycopg.OperationalError("the connection was lost")
    while (more := _result(link, until)) is not None:
        reply = more
    return reply


def _result(link: Link, until: float) -> PGresult | None:
    pgconn = link.pgconn
    while pgconn.is_busy():
        _wait(link, select.POLLIN, until)
        pgconn.consume_input()
    return pgconn.get_result()


def _wait(link: Link, what: int, until: float) -> None:
    asked = select.poll()
    asked.register(link.pgconn.socket, what)
    if not asked.poll(max(0.0, 1000 * (until - time.monotonic()))):
        raise Silent(f"no answer within {link.timeout_s:g} s")


def _rows(link: Link, reply: PGresult) -> list[Any]:
    if reply.status != ExecStatus.TUPLES_OK or not reply.ntuples:
        return []
    loading = Transformer(link)
    loading.set_pgresult(reply)
    return loading.load_rows(0, reply.ntuples, tuple)
