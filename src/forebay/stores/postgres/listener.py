"""Hears what is said on channels of a PostgreSQL database: one connection and one thread, however many listen."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
from psycopg.pq import Escaping

from forebay.errors import StoreClosed, StoreError

if TYPE_CHECKING:
    from forebay.stores.postgres.connection import Link, Server

Hear = Callable[[str], None]

_LEAST_PAUSE_S = 0.1
_MOST_PAUSE_S = 5.0
_SILENCE_S = 5.0  # then the server is asked for a sign of life
_READY_WITHIN_S = 2.0
_END_WITHIN_S = 4.0

_log = logging.getLogger(__name__)


class Listener:
    """Only its thread uses the connection; others leave word and poke it.

    What is heard is a hint. After each new connection everybody is told the empty text: something may have been missed.
    Through a pooler nobody hears anything: a LISTEN would stay behind on a connection that is given to others.
    """

    def __init__(self, server: Server, *, name: str = "forebay-postgres-listener") -> None:
        self._server = server
        self._name = name
        self._lock = threading.Lock()
        self._hears: dict[str, list[Hear]] = {}
        self._ready: list[threading.Event] = []
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self.deaf = False

    def add(self, channel: str, hear: Hear) -> Callable[[], None]:
        """Returns when the server knows of it, or cannot be asked; what it returns stops it."""
        ready = threading.Event()
        with self._lock:
            if self._closed.is_set():
                raise StoreClosed("The store was closed.", remedy="Open it anew.")
            self._hears[channel] = [*self._hears.get(channel, ()), hear]
            if not self.deaf:
                self._ready.append(ready)
            if self._thread is None:
                self._ear, self._mouth = socket.socketpair()
                self._ear.settimeout(0)
                self._mouth.settimeout(0)
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._poke()
        if not self.deaf:
            ready.wait(_READY_WITHIN_S)
        return lambda: self._drop(channel, hear)

    def _drop(self, channel: str, hear: Hear) -> None:
        with self._lock:
            left = [each for each in self._hears.get(channel, ()) if each is not hear]
            if left:
                self._hears[channel] = left
            elif self._hears.pop(channel, None):
                self._poke()

    def _poke(self) -> None:
        if self._thread is not None:
            with suppress(OSError):  # full: it has been poked enough; or it has ended
                self._mouth.send(b"!")

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            self._hears.clear()
            thread = self._thread
            self._poke()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_END_WITHIN_S)

    def _run(self) -> None:
        pause_s = _LEAST_PAUSE_S
        missed = False
        with self._ear, self._mouth:
            while not self._closed.is_set() and not self.deaf:
                try:
                    link = self._server.dial()
                except StoreError as error:
                    _log.debug("postgres_listener_away error=%s", error)
                else:
                    began = time.monotonic()
                    self._follow(link, missed=missed)
                    if time.monotonic() - began > _MOST_PAUSE_S:
                        pause_s = _LEAST_PAUSE_S
                missed = True
                self._let_go()
                if not self.deaf:
                    self._closed.wait(pause_s)
                    pause_s = min(2 * pause_s, _MOST_PAUSE_S)

    def _let_go(self) -> None:
        """Nobody waits for a server that is away."""
        with self._lock:
            ready, self._ready = self._ready, []
        for each in ready:
            each.set()

    def _follow(self, link: Link, *, missed: bool) -> None:
        try:
            if link.shared:
                self.deaf = True
                _log.debug("postgres_listener_deaf place=%s", self._server.place)
                return
            with selectors.DefaultSelector() as either:
                either.register(link.pgconn.socket, selectors.EVENT_READ)
                either.register(self._ear, selectors.EVENT_READ)
                self._hear(link, either, missed=missed)
        except (psycopg.Error, OSError) as error:
            _log.debug("postgres_listener_lost error=%s", error)
        finally:
            link.close()

    def _hear(self, link: Link, either: selectors.BaseSelector, *, missed: bool) -> None:
        known = self._subscribe(link, set())
        if missed:
            for channel in known:
                self._tell(channel, "")
        while not self._closed.is_set() and time.monotonic() < link.expires_at:
            # First: some may have come with the answer to a LISTEN.
            while notice := link.pgconn.notifies():
                self._tell(notice.relname.decode(), notice.extra.decode())
            if not either.select(_SILENCE_S):
                link.say(b"SELECT 1")
            link.pgconn.consume_input()
            with suppress(BlockingIOError):
                self._ear.recv(4096)
            known = self._subscribe(link, known)

    def _subscribe(self, link: Link, known: set[str]) -> set[str]:
        with self._lock:
            wanted = set(self._hears)
            ready, self._ready = self._ready, []
        for channel in sorted(wanted - known):
            link.say(b"LISTEN " + _quoted(link, channel))
        for channel in sorted(known - wanted):
            link.say(b"UNLISTEN " + _quoted(link, channel))
        for each in ready:
            each.set()
        return wanted

    def _tell(self, channel: str, payload: str) -> None:
        with self._lock:
            hears = self._hears.get(channel, [])
        for hear in hears:
            try:
                hear(payload)
            except Exception:  # noqa: BLE001 - one caller's mistake must not end it for all
                _log.exception("postgres_hear_failed channel=%s", channel)


def _quoted(link: Link, channel: str) -> bytes:
    return bytes(Escaping(link.pgconn).escape_identifier(channel.encode()))
