"""Limits in a PostgreSQL database: rows are read under a lock, decided on here, and written, on the server's clock."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from psycopg.errors import UndefinedTable

from forebay.errors import StoreBusy, StoreCorrupt
from forebay.ids import derived_id
from forebay.model.access import Access
from forebay.model.limit_record import Answer, Ask, Grant, Record
from forebay.model.names import check_name
from forebay.model.task import DEFAULT_ENVIRONMENT
from forebay.rules import admission
from forebay.stores.access import too_old_limits
from forebay.stores.limit_base import Step, Wake
from forebay.stores.postgres import limit_rows, schema
from forebay.stores.postgres.connection import Link, Links, Server
from forebay.stores.postgres.limit_rows import Clock, Guess, Key, Read, Told
from forebay.stores.postgres.listener import Listener
from forebay.stores.sql import limit_parts, limit_step
from forebay.stores.sql.limit_rows import Unreadable

TIMEOUT_S = 2.0
# A process that stops between its two steps is cut off by the server before those behind it give up.
_SETTINGS = {
    "idle_in_transaction_session_timeout": "1000ms",
    "lock_timeout": "1500ms",
    "statement_timeout": "1750ms",
    # A record that lost its last commits is found out by the rules, and then costs a pause.
    "synchronous_commit": "off",
    # The rows of a step are few and its tables small: a plan that reads a whole table would look as cheap.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}
_MAX_PAYLOAD = 7900
_READ_AT_ONCE = 200
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
T = TypeVar("T")


class PostgresLimits:
    """A header and rows for each limit. Tests give a clock of their own, or add `shift` ms to the server's."""

    instant = False
    shift = 0

    def __init__(
        self,
        address: str,
        *,
        environment: str = DEFAULT_ENVIRONMENT,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._environment = check_name("environment", environment)
        self._clock = clock
        self._guesses: dict[str, Guess | None] = {}
        self._server = Server(address, settings=_SETTINGS, timeout_s=TIMEOUT_S, prepare_threshold=None)
        self._open()
        _OPEN.add(self)

    def _open(self) -> None:
        self._has_tables = False
        self._migrating = threading.Lock()
        self._links = Links(self._server)
        # Of its own: a heartbeat must not wait behind anything.
        self._beats = Links(self._server, max_idle=1)
        self._listener = Listener(self._server, name="forebay-limits-listener")
        self._turns: dict[str, threading.Lock] = {}

    def after_fork(self) -> None:
        """Sockets and locks are the parent's; whoever listened there does not listen here."""
        self._open()

    def exchange(self, limit: str, ask: Ask) -> Answer:
        """Only one thread at a time: at the server they would wait for the same lock, each with a connection."""
        turn = self._turns.setdefault(limit, threading.Lock())
        if not turn.acquire(timeout=TIMEOUT_S):
            raise StoreBusy(
                f"Other threads kept limit {limit!r} busy for {TIMEOUT_S:.0f} s.",
                remedy="Try again; if it goes on, use fewer processes, or limits in Redis.",
            )
        try:
            return self._ask(self._links, limit, ask)
        finally:
            turn.release()

    def renew(self, limit: str, ask: Ask) -> Answer:
        return self._ask(self._beats, limit, ask)

    def give_back(self, limit: str, ask: Ask) -> Answer:
        return self.exchange(limit, ask)

    def send_back(self, limit: str, ask: Ask) -> bool:  # noqa: ARG002 - of the contract
        return False  # it decides here, with the record locked

    def _ask(self, links: Links, limit: str, ask: Ask) -> Answer:
        key, want, beats = Key(self._environment, limit), limit_parts.wanted(ask), limit_parts.may_only_beat(ask)

        def use(link: Link) -> Answer:
            guess = self._guesses.get(limit)
            queries = guess.queries(want, beats=beats) if guess else []
            locked = limit_rows.lock(link, key, self._now(), guess.limit if guess else 0, queries)
            reader = locked.reader
            if reader is None:
                return admission.unknown(locked.raw)
            with _readable(limit):
                decided = limit_step.exchange(reader.header, reader, ask, locked.raw)
            if not beats or guess is None:
                self._guesses[limit] = reader.guess
            if decided is None:
                return admission.unknown(locked.raw)
            now = decided.answer["now"]
            told = [self._told(limit, sid, grants, now) for sid, grants in decided.told]
            limit_rows.write(link, reader.header.id, decided.changes, told)
            return decided.answer

        return self._using(links, use, lambda now: admission.unknown(self._now().at(now)), migrates=True)

    def _now(self) -> Clock:
        return Clock(None if self._clock is None else self._clock(), self.shift)

    def _told(self, limit: str, sid: str, grants: list[Grant], now: int) -> Told:
        """What a session was given; where that is too much for a NOTIFY, only that there is something."""
        payload = _encode({"limit": limit, "grants": grants, "now": now})
        if len(payload) > _MAX_PAYLOAD:
            payload = _encode({"limit": limit, "grants": [], "now": now})
        return Told(self._channel(sid), payload)

    def _channel(self, sid: str) -> str:
        return f"forebay_{derived_id(self._environment, sid)}"

    def find(self, limit: str, session: str) -> tuple[Record | None, int]:
        key = Key(self._environment, limit)

        def use(link: Link) -> Read | int:
            return limit_rows.find(link, key, session, self._now())

        found = self._using(self._links, use, missing=lambda now: self._now().at(now))
        if isinstance(found, int):
            return None, found
        if found.header is None:
            return None, found.raw
        with _readable(limit):
            return limit_step.find(found.header, found.rows, session), found.raw

    def read(self, limit: str) -> tuple[Record | None, int]:
        return self.read_many([limit])[0]

    def read_many(self, limits: Sequence[str]) -> list[tuple[Record | None, int]]:
        found: list[tuple[Record | None, int]] = []
        for at in range(0, len(limits), _READ_AT_ONCE):
            some = limits[at : at + _READ_AT_ONCE]
            found += [_recorded(limit, read) for limit, read in zip(some, self._read(some), strict=True)]
        return found

    def _read(self, limits: Sequence[str]) -> list[Read | int]:
        """The time alone where there is no limit of that name."""
        keys = [Key(self._environment, limit) for limit in limits]
        return self._using(
            self._links,
            lambda link: [*limit_rows.read_many(link, keys, self._now())],
            missing=lambda now: [self._now().at(now) for _ in limits],
        )

    def check(self, limit: str) -> list[str]:
        """Say where the rows of a limit do not fit its header, or each other."""
        [read] = self._read([limit])
        if isinstance(read, int) or read.header is None:
            return []
        with _readable(limit):
            return limit_step.check(read.header, read)

    def change(self, limit: str, step: Step) -> Record | None:
        def use(link: Link) -> Record | None:
            while True:
                locked = limit_rows.lock_whole(link, key, self._now())
                reader = locked.reader
                if reader is None:
                    changed = step(None, locked.raw)
                    if changed is None or limit_rows.add(link, key, limit_step.first_rows(changed)):
                        return changed
                    continue
                with _readable(limit):
                    record, rows = limit_step.read_whole(reader.header, reader, locked.raw)
                changed = step(record, locked.raw)
                if changed is not None:
                    changes = limit_step.replace(reader.header, rows, changed)
                    limit_rows.write(link, reader.header.id, changes)
                return changed

        def missing(now: int) -> Record | None:
            if step(None, self._now().at(now)) is None:
                return None
            self._make_tables()
            return self.change(limit, step)

        key = Key(self._environment, limit)
        return self._using(self._links, use, missing, migrates=True)

    def names(self) -> list[str]:
        return self._using(self._links, lambda link: limit_rows.names(link, self._environment), missing=lambda _: [])

    def _using(
        self, links: Links, use: Callable[[Link], T], missing: Callable[[int], T], *, migrates: bool = False
    ) -> T:
        """Use the tables; where there are none, also if somebody has dropped them meanwhile, `missing` answers.

        `missing` is told the server's clock. Only `change` makes tables, and only what uses a limit migrates older
        ones: whoever looks leaves the database as it is.
        """
        try:
            with links.use() as link:
                found = self._found_schema(link)
                if found == schema.LIMITS.newest:
                    return use(link)
                now = limit_rows.server_clock(link)
        except StoreCorrupt as error:
            if not isinstance(error.__cause__, UndefinedTable):
                raise
            self._has_tables = False
            with links.use() as link:
                now, found = limit_rows.server_clock(link), self._found_schema(link)
        if found == 0:
            return missing(now)
        if found == schema.LIMITS.newest:
            raise StoreCorrupt(
                f"Of the tables of limits in {self._server.place} some are gone.",
                remedy="Drop forebay_limits: limits are then learned anew.",
            )
        if not migrates:
            raise too_old_limits(self._server.place, found, schema.LIMITS.newest)
        self._make_tables()
        return self._using(links, use, missing)

    def _found_schema(self, link: Link) -> int:
        if self._has_tables:
            return schema.LIMITS.newest
        found = schema.LIMITS.version(link, self._server.place)
        self._has_tables = found == schema.LIMITS.newest
        return found

    def _make_tables(self) -> None:
        with self._migrating, self._links.use() as link:
            schema.LIMITS.prepare(link, self._server.place, Access.INIT)

    def listen(self, sid: str, wake: Wake) -> Callable[[], None]:
        def hear(payload: str) -> None:
            if payload:  # else the connection is new: the next heartbeat brings what was missed
                told = json.loads(payload)
                wake(told["limit"], told["grants"], told["now"])

        return self._listener.add(self._channel(sid), hear)

    def close(self) -> None:
        self._listener.close()
        self._links.close()
        self._beats.close()


def _recorded(limit: str, read: Read | int) -> tuple[Record | None, int]:
    if isinstance(read, int):
        return None, read
    if read.header is None:
        return None, read.raw
    with _readable(limit):
        return limit_step.read_record(read.header, read), read.raw


@contextmanager
def _readable(limit: str) -> Iterator[None]:
    try:
        yield
    except Unreadable as error:
        raise StoreCorrupt(
            f"The rows of limit {limit!r} cannot be read: {error}.",
            remedy="Delete its row from forebay_limits: the limit is then learned anew.",
        ) from error


_OPEN: weakref.WeakSet[PostgresLimits] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_OPEN):
        store.after_fork()


os.register_at_fork(after_in_child=_after_fork)
