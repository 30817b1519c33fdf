"""Hears what is said on channels of a PostgreSQL database: one connection and one thread, however many listen."""

from __future__ import annotations

import logging
import selectors
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg
from psycopg.pq import Escaping

from forebay.stores.follower import Follower, known_to_server
from forebay.supervisor import report_failure

if TYPE_CHECKING:
    from forebay.stores.postgres.connection import Link, Server

Hear = Callable[[str], None]

_SILENCE_S = 5.0  # then the server is asked for a sign of life

_log = logging.getLogger(__name__)


class Listener(Follower["Link"]):
    """What is heard is a hint.

    After each new connection everybody hears the empty text: something may have been missed.
    Through a pooler nobody hears anything: a LISTEN would stay behind on a connection that is given to others.
    """

    def __init__(self, server: Server, *, name: str = "forebay-postgres-listener") -> None:
        super().__init__(name)
        self._server = server
        self._hears: dict[str, list[Hear]] = {}
        self._ready: list[threading.Event] = []
        self._missed = False
        self.deaf = False

    def add(self, channel: str, hear: Hear) -> Callable[[], None]:
        """Returns when the server knows of it, or cannot be asked; what it returns stops it."""
        ready = threading.Event()
        with self._lock:
            self._begin()
            self._hears[channel] = [*self._hears.get(channel, ()), hear]
            if self.deaf:
                ready.set()
            else:
                self._ready.append(ready)
        known_to_server(ready)
        return lambda: self._drop(channel, hear)

    def _drop(self, channel: str, hear: Hear) -> None:
        with self._lock:
            left = [each for each in self._hears.get(channel, ()) if each is not hear]
            if left:
                self._hears[channel] = left
            elif self._hears.pop(channel, None):
                self._poke()

    def _forget(self) -> None:
        self._hears.clear()

    def _dial(self) -> Link:
        return self._server.dial()

    def _let_go(self) -> None:
        self._missed = True
        with self._lock:
            ready, self._ready = self._ready, []
        for each in ready:
            each.set()

    def _follow(self, link: Link) -> bool:
        try:
            if link.shared:
                self.deaf = True
                _log.debug("postgres_listener_deaf place=%s", self._server.place)
                return False
            with selectors.DefaultSelector() as either:
                either.register(link.pgconn.socket, selectors.EVENT_READ)
                either.register(self._ear, selectors.EVENT_READ)
                self._hear(link, either)
        except (psycopg.Error, OSError) as error:
            _log.debug("postgres_listener_lost error=%s", error)
        return True

    def _hang_up(self, link: Link) -> None:
        link.close()

    def _hear(self, link: Link, either: selectors.BaseSelector) -> None:
        known = self._subscribe(link, set())
        if self._missed:
            for channel in known:
                self._tell(channel, "")
        while not self._closed.is_set() and time.monotonic() < link.expires_at:
            # First: some may have come with the answer to a LISTEN.
            while notice := link.pgconn.notifies():
                self._tell(notice.relname.decode(), notice.extra.decode())
            if not either.select(_SILENCE_S):
                link.say(b"SELECT 1")
            link.pgconn.consume_input()
            self._poked()
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
            except Exception as error:  # noqa: BLE001 - one caller's mistake must not end it for all
                report_failure(self._name, error, restart_count=0, pause_s=0)


def _quoted(link: Link, channel: str) -> bytes:
    return bytes(Escaping(link.pgconn).escape_identifier(channel.encode()))
