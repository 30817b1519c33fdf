"""Limits in a PostgreSQL database: a record is locked, decided on here, and replaced, on the server's clock."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from psycopg.errors import UndefinedTable

from forebay.errors import StoreCorrupt
from forebay.ids import derived_id
from forebay.model.access import Access
from forebay.model.limit_record import Answer, Ask, Record
from forebay.model.names import check_name
from forebay.model.task import DEFAULT_ENVIRONMENT
from forebay.rules import admission
from forebay.stores.limit_base import Step, Wake
from forebay.stores.postgres import limit_rows, schema
from forebay.stores.postgres.connection import Link, Links, Server
from forebay.stores.postgres.limit_rows import Key, Told
from forebay.stores.postgres.listener import Listener

TIMEOUT_S = 2.0
# A process that stops between its two steps is cut off by the server before those behind it give up.
_SETTINGS = {
    "idle_in_transaction_session_timeout": "1000ms",
    "lock_timeout": "1500ms",
    "statement_timeout": "1750ms",
    # A record that lost its last commits is found out by the rules, and then costs a pause.
    "synchronous_commit": "off",
}
_MAX_PAYLOAD = 7900
_READ_AT_ONCE = 200
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
T = TypeVar("T")


class PostgresLimits:
    """One row per limit. Tests give a clock of their own, or add `shift` ms to the server's."""

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
        self._server = Server(address, settings=_SETTINGS, timeout_s=TIMEOUT_S, prepare_threshold=None)
        self._open()
        _OPEN.add(self)

    def _open(self) -> None:
        self._has_table = False
        self._migrating = threading.Lock()
        self._links = Links(self._server)
        # Of its own: a heartbeat must not wait behind anything.
        self._beats = Links(self._server, max_idle=1)
        self._listener = Listener(self._server, name="forebay-limits-listener")

    def after_fork(self) -> None:
        """Sockets and locks are the parent's; whoever listened there does not listen here."""
        self._open()

    def exchange(self, limit: str, ask: Ask) -> Answer:
        return self._ask(self._links, limit, ask)

    def renew(self, limit: str, ask: Ask) -> Answer:
        return self._ask(self._beats, limit, ask)

    def give_back(self, limit: str, ask: Ask) -> Answer:
        return self.exchange(limit, ask)

    def send_back(self, limit: str, ask: Ask) -> bool:  # noqa: ARG002 - of the contract
        return False  # it decides here, with the record locked

    def _ask(self, links: Links, limit: str, ask: Ask) -> Answer:
        def use(link: Link) -> Answer:
            record, raw = self._timed(limit_rows.lock(link, key))
            if record is None:
                return admission.unknown(raw)
            answer = admission.decide(record, ask, raw)
            if answer["status"] != "unknown":
                told = [self._told(limit, record, sid, answer["now"]) for sid in answer["wakes"]]
                limit_rows.replace(link, key, record, told)
            return answer

        key = Key(self._environment, limit)
        return self._using(links, use, missing=lambda now: admission.unknown(self._timed((None, now))[1]))

    def _told(self, limit: str, record: Record, sid: str, now: int) -> Told:
        """What a session was given; where that is too much for a NOTIFY, only that there is something."""
        payload = _encode({"limit": limit, "grants": record["seats"][sid]["out"], "now": now})
        if len(payload) > _MAX_PAYLOAD:
            payload = _encode({"limit": limit, "grants": [], "now": now})
        return Told(self._channel(sid), payload)

    def _channel(self, sid: str) -> str:
        return f"forebay_{derived_id(self._environment, sid)}"

    def read(self, limit: str) -> tuple[Record | None, int]:
        key = Key(self._environment, limit)
        found = self._using(self._links, lambda link: limit_rows.read(link, key), missing=lambda now: (None, now))
        return self._timed(found)

    def read_many(self, limits: Sequence[str]) -> list[tuple[Record | None, int]]:
        found: list[tuple[Record | None, int]] = []
        for at in range(0, len(limits), _READ_AT_ONCE):
            keys = [Key(self._environment, limit) for limit in limits[at : at + _READ_AT_ONCE]]
            use = partial(limit_rows.read_many, keys=keys)
            read = self._using(self._links, use, missing=partial(_nothing_of, keys))
            found += [self._timed(each) for each in read]
        return found

    def change(self, limit: str, step: Step) -> Record | None:
        def use(link: Link) -> Record | None:
            while True:
                record, raw = self._timed(limit_rows.lock(link, key))
                changed = step(record, raw)
                if changed is None:
                    return None
                if record is not None:
                    limit_rows.replace(link, key, changed)
                    return changed
                if limit_rows.add(link, key, changed):
                    return changed

        def missing(now: int) -> Record | None:
            if step(*self._timed((None, now))) is None:
                return None
            self._make_table()
            return self.change(limit, step)

        key = Key(self._environment, limit)
        return self._using(self._links, use, missing=missing)

    def names(self) -> list[str]:
        return self._using(self._links, lambda link: limit_rows.names(link, self._environment), missing=lambda _: [])

    def _timed(self, found: tuple[Record | None, int]) -> tuple[Record | None, int]:
        """With the time that counts."""
        record, server = found
        return record, (server if self._clock is None else self._clock()) + self.shift

    def _using(self, links: Links, use: Callable[[Link], T], missing: Callable[[int], T]) -> T:
        """Use the table; where there is none, also if somebody has dropped it meanwhile, `missing` answers.

        `missing` is told the server's clock. Only `change` makes a table: whoever looks leaves the database as it is.
        """
        try:
            with links.use() as link:
                if self._found_table(link):
                    return use(link)
                now = limit_rows.clock(link)
        except StoreCorrupt as error:
            if not isinstance(error.__cause__, UndefinedTable):
                raise
            self._has_table = False
            with links.use() as link:
                now = limit_rows.clock(link)
        return missing(now)

    def _found_table(self, link: Link) -> bool:
        if not self._has_table:
            self._has_table = schema.LIMITS.version(link, self._server.place) == schema.LIMITS.newest
        return self._has_table

    def _make_table(self) -> None:
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


def _nothing_of(keys: Sequence[Key], now: int) -> list[tuple[Record | None, int]]:
    return [(None, now) for _ in keys]


_OPEN: weakref.WeakSet[PostgresLimits] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_OPEN):
        store.after_fork()


os.register_at_fork(after_in_child=_after_fork)
