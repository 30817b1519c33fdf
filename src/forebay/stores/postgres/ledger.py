"""Keeps a ledger in a PostgreSQL database: a transaction for each step, on as many connections as threads call."""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg import errors as pg

from forebay.clock import Clock
from forebay.errors import BadInput, StoreBusy, StoreClosed, StoreError
from forebay.model.access import Access
from forebay.model.exchange import Submitted
from forebay.model.job import NewJob
from forebay.stores.job_log import log_events
from forebay.stores.listeners import Listeners
from forebay.stores.postgres import schema
from forebay.stores.postgres.connection import Link, Links, Server
from forebay.stores.postgres.driver import Driver
from forebay.stores.postgres.listener import Listener
from forebay.stores.postgres.trouble import in_doubt
from forebay.stores.sql.ledger import SqlLedger, whole
from forebay.stores.sql.statement import Again, Steps
from forebay.stores.sql.transaction import Transaction
from forebay.stores.together import Together

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
G = TypeVar("G")
_SUBMITS_AT_ONCE = 2
TIMEOUT_S = 40.0
_MIGRATION_TIMEOUT_S = 3600.0
SETTINGS = {
    "statement_timeout": "30s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "10s",
    # Plans are made once, while the tables may still be small: they are to suit large ones, and all have an index.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_material": "off",
    "enable_memoize": "off",
    "jit": "off",
    # A batch that is a transaction by itself has these, whatever the role or the database has by default.
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
}
_TRIES = 8
_PAUSE_S = 0.005
# Nothing was done, and the next time it may go well.
# A division by zero is how `turn` and `got` say that somebody was quicker.
_REPEATED = (pg.SerializationFailure, pg.DeadlockDetected, pg.UniqueViolation, pg.DivisionByZero)
_LONGEST_NAME = 63
_INVALID = """
SELECT indexrelid::regclass::text FROM pg_index
WHERE NOT indisvalid AND indrelid IN (
    SELECT oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname LIKE 'forebay\\_%'
)
"""
# What the tables beside the tasks say has to be what the tasks say.
_ASTRAY = """
SELECT 'task ' || t.id || ' waits, but stands in no line' FROM forebay_tasks AS t
WHERE t.status = 'pending' AND t.tag IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM forebay_ready AS r WHERE r.seq = t.seq)
  AND NOT EXISTS (SELECT 1 FROM forebay_running AS r WHERE r.seq = t.seq)
UNION ALL
SELECT 'number ' || r.seq || ' stands in line, but no such task waits' FROM forebay_ready AS r
WHERE NOT EXISTS (SELECT 1 FROM forebay_tasks AS t WHERE t.seq = r.seq AND t.status = 'pending' AND t.tag = r.tag)
   OR EXISTS (SELECT 1 FROM forebay_running AS c WHERE c.seq = r.seq)
UNION ALL
SELECT 'number ' || r.seq || ' is claimed, but no such task is open' FROM forebay_running AS r
WHERE NOT EXISTS (
    SELECT 1 FROM forebay_tasks AS t WHERE t.seq = r.seq AND t.status = 'pending' AND t.claim_count = r.token - 1
)
UNION ALL
SELECT 'task ' || t.id || ' is ' || t.status || ', but its error class is ' || coalesce(t.error_class, 'missing')
FROM forebay_tasks AS t
WHERE t.status IN ('failed', 'canceled') AND (t.error_class = 'canceled') IS DISTINCT FROM (t.status = 'canceled')
UNION ALL
SELECT 'task ' || t.id || ' is not listed under its tag ' || g.tag
FROM forebay_tasks AS t CROSS JOIN LATERAL jsonb_array_elements_text(t.tags::jsonb) AS g (tag)
WHERE NOT EXISTS (SELECT 1 FROM forebay_task_tags AS own WHERE own.tag = g.tag AND own.seq = t.seq)
UNION ALL
SELECT 'job ' || j.id || ' is not listed under its tag ' || g.tag
FROM forebay_jobs AS j CROSS JOIN LATERAL jsonb_array_elements_text(j.tags::jsonb) AS g (tag)
WHERE NOT EXISTS (SELECT 1 FROM forebay_job_tags AS own WHERE own.tag = g.tag AND own.seq = j.seq)
LIMIT 100
"""


class PostgresLedger(SqlLedger):
    """Many of them, on many machines, may share a database. Nothing is opened before first use."""

    group_tasks = 500
    one_batch = True

    def __init__(
        self,
        address: str,
        *,
        clock: Clock | None = None,
        environment: str | None = None,
        access: Access = Access.USE,
    ) -> None:
        super().__init__(environment)
        self._together = Together(self._submit, self.group_tasks)
        self._access = access
        self._server = Server(address, settings=SETTINGS, timeout_s=TIMEOUT_S, prepare_threshold=None)
        self._clock = clock
        self._open()
        _OPEN.add(self)

    def _open(self) -> None:
        self._lock = threading.Lock()
        self._links = Links(self._server)
        self._listeners = Listeners()
        self._listener: Listener | None = None
        self._channel = ""
        self._closed = False

    def after_fork(self) -> None:
        """Sockets and locks are the parent's; whoever listened there does not listen here."""
        closed = self._closed
        self._open()
        self._closed = closed
        if closed:
            self._links.close()

    def _ready(self) -> str:
        """The channel of this ledger, whose tables are there."""
        if not self._channel:
            with self._lock:
                if not self._channel:
                    with self._links.use() as link:
                        self._channel = _prepare(link, self._server.place, self._access)
        return self._channel

    @property
    def place(self) -> str:
        return self._server.place

    @property
    def newest_schema(self) -> int:
        return schema.LEDGER.newest

    def _commit(self, step: Callable[..., Steps[T]], *arguments: object, **named: object) -> T:
        """Run a step again where somebody was quicker, and where the connection was lost and a repeat is safe.

        A step that may be committed stays in doubt, however its repeat fails.
        """
        channel = self._ready()
        patient = doubtful = False
        try:
            for tries in range(1, _TRIES + 1):
                with self._links.use() as link:
                    tx = Transaction(alone=False, patient=patient, careful=tries > 1, doubtful=doubtful)
                    driver = Driver(link, tx, channel=channel, clock=self._now())
                    try:
                        answer = driver.write(whole(tx, step, *arguments, **named))
                    except Again:
                        patient = True
                    except psycopg.Error as error:
                        if tries >= _tries(error, link, driver):
                            raise
                        doubtful = doubtful or (driver.ended and link.closed)
                        time.sleep(_PAUSE_S * random.uniform(0, tries))  # noqa: S311 - spreads processes
                    else:
                        log_events(tx.noted)
                        return answer
            raise StoreBusy(
                f"In {self._server.place} others were quicker {_TRIES} times.", remedy="Nothing is lost: try again."
            )
        except StoreError as error:
            if doubtful:
                raise in_doubt(error) from error
            raise

    def _submit_job(self, new: NewJob) -> Submitted:
        return self._together.submit(new)

    def _query(self, read: Callable[..., Steps[T]], *arguments: object) -> T:
        """What only reads, or changes nothing when it is done twice, is asked again on a new connection."""
        channel = self._ready()
        last = False
        while True:
            with self._links.use() as link:
                tx = Transaction(alone=False)
                try:
                    return Driver(link, tx, channel=channel, clock=self._now()).read(read(tx, *arguments))
                except psycopg.OperationalError:
                    if last or not link.closed:
                        raise
                    last = True

    def _beside(self, step: Callable[..., Steps[T]], *arguments: object) -> T:
        # A connection of its own is what every call has.
        return self._query(step, *arguments)

    def _each(self, run: Callable[[G], T], groups: Iterator[G]) -> Iterator[T]:
        """Two at a time, so that the next is made ready here while the server stores one; in their order by time."""
        parts = [*groups]
        if len(parts) <= 1 or self._clock is not None:
            yield from map(run, parts)
            return
        with ThreadPoolExecutor(_SUBMITS_AT_ONCE, "forebay-submit") as pool:
            yield from pool.map(run, parts)

    def _now(self) -> float | None:
        return None if self._clock is None else self._clock.now()

    def listen(self, wake: Callable[[], None], *, loop: asyncio.AbstractEventLoop | None = None) -> Callable[[], None]:
        channel = self._ready()
        stop = self._listeners.add(wake, loop)
        with self._lock:
            if self._closed:
                raise StoreClosed("The ledger was closed.", remedy="Open it again.")
            if self._listener is None:
                self._listener = Listener(self._server, name="forebay-ledger-listener")
                self._listener.add(channel, self._hear)
        return stop

    def _hear(self, _: str) -> None:
        self._stirred = True
        self._listeners.tell()

    def check(self) -> list[str]:
        self._ready()
        with self._links.use() as link:
            invalid = [f"index {row[0]} is not valid: REINDEX it" for row in link.execute(_INVALID)]
            return invalid + [row[0] for row in link.execute(_ASTRAY)]

    def backup(self, target: Path) -> None:
        raise BadInput(
            f"{self._server.place} is not copied to {target} by Forebay.",
            remedy="Use pg_dump, which copies it while it is in use.",
        )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        self._links.close()


def _prepare(link: Link, place: str, access: Access) -> str:
    usual = link.timeout_s
    link.timeout_s = _MIGRATION_TIMEOUT_S
    try:
        schema.LEDGER.prepare(link, place, access)
        ((name,),) = link.execute("SELECT current_schema()").fetchall()
    finally:
        link.timeout_s = usual
    channel = f"forebay_{name}"
    if len(channel.encode()) <= _LONGEST_NAME:
        return channel
    return f"forebay_{sha256(channel.encode()).hexdigest()[:32]}"


def _tries(error: psycopg.Error, link: Link, driver: Driver) -> int:
    """How often a step is run that ends like this."""
    if isinstance(error, _REPEATED):
        return _TRIES
    lost = driver.is_repeatable and link.closed and isinstance(error, psycopg.OperationalError)
    # Nothing was done either, but each time takes long.
    return 2 if lost or isinstance(error, pg.LockNotAvailable) else 1


_OPEN: weakref.WeakSet[PostgresLedger] = weakref.WeakSet()


def _after_fork() -> None:
    for ledger in list(_OPEN):
        ledger.after_fork()


os.register_at_fork(after_in_child=_after_fork)
