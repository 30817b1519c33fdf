"""Opens connections to a PostgreSQL server with our settings, and keeps sound ones for the next call."""

from __future__ import annotations

import os
import random
import secrets
import select
import threading
import time
import weakref
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from forebay.errors import StoreClosed, StoreError
from forebay.stores.postgres import place
from forebay.stores.postgres.trouble import Silent, refuses_options, told

CONNECT_TIMEOUT_S = 3
LIFETIME_S = 3600.0
_SURELY_OPEN_S = 0.1
_INTERVAL_S = 0.1
_MAX_IDLE = 4
_MARK = "forebay.mark"
# Whatever of it the address names itself is left as it says.
_DEFAULTS: dict[str, str | int] = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "application_name": "forebay",
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
R = TypeVar("R")


class Link(psycopg.Connection[tuple[Any, ...]]):
    """A connection in autocommit mode whose steps take a bounded time.

    `shared` says that it leads through a pooler, which may give each transaction another server connection: then
    nothing is prepared, and the settings go into each transaction. Whoever begins one sends `begin`.
    """

    shared = False
    timeout_s = 30.0
    expires_at = float("inf")
    settings: Mapping[str, str]
    prepared = False
    """For whoever has statements to prepare once for each connection."""
    farewell: psycopg.Error | None = None
    """Why the server ended the connection, if it said so while nothing was asked of it."""

    def hear_farewell(self) -> psycopg.Error | None:
        """Return why the server ended the connection, if it has."""
        if self.farewell is None and not self.closed:
            with suppress(psycopg.Error):
                asked = select.poll()
                asked.register(self.pgconn.socket, select.POLLIN)
                if asked.poll(0):
                    self.pgconn.consume_input()
                    self.pgconn.is_busy()  # has libpq read it
        return self.farewell

    def hear(self, said: psycopg.errors.Diagnostic) -> None:
        """Keep what the server said last before it ended the connection."""
        if said.severity_nonlocalized == "FATAL" and said.sqlstate is not None:
            with suppress(KeyError):
                self.farewell = psycopg.errors.lookup(said.sqlstate)(said.message_primary or "")

    def wait(self, gen: Any, interval: float = _INTERVAL_S, timeout: float | None = None) -> Any:  # noqa: ANN401 - psycopg's
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        return super().wait(self._bounded(gen, time.monotonic() + self.timeout_s), interval)

    def _bounded(self, gen: Generator[Any, Any, R], until: float) -> Generator[Any, Any, R]:
        """The generator, ended when nothing has been heard: libpq itself waits for an answer for ever."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() >= until:
                    # At once: else psycopg would wait again to leave its pipeline in order.
                    self.close()
                    raise Silent(f"no answer within {self.timeout_s:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def say(self, text: bytes) -> list[PGresult]:
        """Send statements as they are, in one round trip; the reply of each. A third of what a cursor costs."""
        pgconn = self.pgconn
        until = time.monotonic() + self.timeout_s
        pgconn.send_query(text)
        while pgconn.flush():
            self._await(select.POLLIN | select.POLLOUT, until)
            pgconn.consume_input()
        replies: list[PGresult] = []
        while True:
            while pgconn.is_busy():
                self._await(select.POLLIN, until)
                pgconn.consume_input()
            reply = pgconn.get_result()
            if reply is None:
                break
            replies.append(reply)
        for reply in replies:
            if reply.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(reply)
        return replies

    def _await(self, what: int, until: float) -> None:
        asked = select.poll()
        asked.register(self.pgconn.socket, what)
        if not asked.poll(max(0.0, 1000 * (until - time.monotonic()))):
            self.close()
            raise Silent(f"no answer within {self.timeout_s:g} s")

    @property
    def begin(self) -> str:
        """What begins a transaction with our settings, as one text of the simple protocol."""
        if not self.shared:
            return "BEGIN"
        return "; ".join(["BEGIN", *(f"SET LOCAL {name} = '{value}'" for name, value in self.settings.items())])

    @property
    def sound(self) -> bool:
        """Whether the next one may have it; one that the server has closed says so by having something to read."""
        if self.closed or self.pgconn.transaction_status != TransactionStatus.IDLE:
            return False
        asked = select.poll()
        asked.register(self.pgconn.socket, select.POLLIN)
        return not asked.poll(0)


class Server:
    """One address: dials it, and names it in errors without its password.

    `settings` are the server's own (statement_timeout, lock_timeout, …), as text; `timeout_s` is how long a step may
    go without an answer: choose it above statement_timeout, so that a server that still works says itself that it
    gave up, which is sure, where silence is not.
    """

    def __init__(
        self, address: str, *, settings: Mapping[str, str], timeout_s: float, prepare_threshold: int | None = 2
    ) -> None:
        self._options = _DEFAULTS | place.options(address)
        self.place = place.shown(self._options)
        self._settings = {name: str(value) for name, value in settings.items()}
        self._timeout_s = timeout_s
        self._prepare_threshold = prepare_threshold

    def dial(self) -> Link:
        """Sends the settings as options at the start; where a pooler refuses or drops those, the link is `shared`."""
        with told(self.place, sent=False):
            mark = secrets.token_hex(8)
            try:
                link = self._connect(self._with_options(mark))
            except psycopg.OperationalError as error:
                if not refuses_options(error):
                    raise
                link = self._connect(self._options)
            try:
                found = link.execute(f"SELECT current_setting('{_MARK}', true)").fetchone()
                link.shared = found != (mark,)
                link.prepare_threshold = None if link.shared else self._prepare_threshold
            except BaseException:
                link.close()
                raise
        return link

    def _connect(self, options: Mapping[str, str | int]) -> Link:
        link = Link.connect(autocommit=True, prepare_threshold=None, **options)  # type: ignore[arg-type]
        link.settings = self._settings
        link.timeout_s = self._timeout_s
        link.add_notice_handler(link.hear)
        # Spread, so that connections that were opened together are not all replaced together.
        link.expires_at = time.monotonic() + LIFETIME_S * random.uniform(0.8, 1.0)  # noqa: S311 - only a spread
        _OPEN.add(link)
        return link

    def _with_options(self, mark: str) -> dict[str, str | int]:
        # The server splits options at spaces that are not escaped.
        settings = {name: value.replace(" ", "\\ ") for name, value in {**self._settings, _MARK: mark}.items()}
        ours = " ".join(f"-c {name}={value}" for name, value in settings.items())
        return self._options | {"options": f"{self._options.get('options', '')} {ours}".strip()}

    @contextmanager
    def told(self) -> Iterator[None]:
        """Say what an error of psycopg's means, once something may have been sent."""
        with told(self.place, sent=True):
            yield


class Links:
    """Connections that are kept for the next call; as many as there are threads that call at once."""

    def __init__(self, server: Server, *, max_idle: int = _MAX_IDLE) -> None:
        self._server = server
        self._max_idle = max_idle
        self._lock = threading.Lock()
        self._idle: list[tuple[Link, float]] = []
        self._closed = False

    @contextmanager
    def use(self) -> Iterator[Link]:
        """One for this thread alone; a transaction that is left open is rolled back, and errors become ours."""
        link = self._take()
        try:
            with self._server.told():
                yield link
        finally:
            self._give_back(link)

    def _take(self) -> Link:
        while True:
            with self._lock:
                if self._closed:
                    raise StoreClosed("The store was closed.", remedy="Open it again.")
                if not self._idle:
                    break
                link, since = self._idle.pop()
            now = time.monotonic()
            if now < link.expires_at and (now - since < _SURELY_OPEN_S or link.sound):
                return link
            link.close()
        return self._server.dial()

    def _give_back(self, link: Link) -> None:
        if not link.closed and link.pgconn.transaction_status in _OPEN_TRANSACTION:
            with suppress(psycopg.Error, StoreError):
                link.say(b"ROLLBACK")
        if not link.closed and link.pgconn.transaction_status == TransactionStatus.IDLE:
            with self._lock:
                if not self._closed and len(self._idle) < self._max_idle:
                    self._idle.append((link, time.monotonic()))
                    return
        link.close()

    def close(self) -> None:
        """Those in use are closed when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for link, _ in idle:
            link.close()


_OPEN_TRANSACTION = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
_OPEN: weakref.WeakSet[Link] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """In a forked child: to close a connection says goodbye to the server, which must not hear that from us."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for link in list(_OPEN):
        with suppress(psycopg.Error, OSError):
            os.dup2(nowhere, link.pgconn.socket, inheritable=False)
        link.close()
    os.close(nowhere)


os.register_at_fork(after_in_child=_leave_to_parent)
