"""Hears what sessions of this process are given by others: one connection and one thread, however many sessions."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from forebay.errors import StoreClosed, StoreError
from forebay.stores.redis import codec
from forebay.stores.redis.connection import send

if TYPE_CHECKING:
    from forebay.stores.limit_base import Wake
    from forebay.stores.redis.connection import Link, Server

_LEAST_PAUSE_S = 0.1
_MOST_PAUSE_S = 5.0
_SILENCE_S = 2.0  # then the server is asked for a sign of life, and given as long again
_READY_WITHIN_S = 2.0
_END_WITHIN_S = 4.0

_log = logging.getLogger(__name__)


class Listener:
    """Only its thread uses the connection; others leave word and poke it."""

    def __init__(self, server: Server, channel: str) -> None:
        self._server = server
        self._channel = channel
        self._lock = threading.Lock()
        self._wakes: dict[str, Wake] = {}
        self._ready: dict[str, threading.Event] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def add(self, sid: str, wake: Wake) -> Callable[[], None]:
        """Returns when the server knows of it, or cannot be asked."""
        ready = threading.Event()
        with self._lock:
            if self._closed.is_set():
                raise StoreClosed("The limit store was closed.", remedy="Open it anew.")
            self._wakes[sid] = wake
            self._ready[sid] = ready
            if self._thread is None:
                self._ear, self._mouth = socket.socketpair()
                self._ear.settimeout(0)
                self._mouth.settimeout(0)
                self._thread = threading.Thread(target=self._run, name="forebay-redis-listener", daemon=True)
                self._thread.start()
            self._poke()
        ready.wait(_READY_WITHIN_S)
        return lambda: self._drop(sid, wake)

    def _drop(self, sid: str, wake: Wake) -> None:
        with self._lock:
            if self._wakes.get(sid) is wake:
                del self._wakes[sid]
                self._poke()

    def _poke(self) -> None:
        if self._thread is not None:
            with suppress(OSError):  # full: it has been poked enough
                self._mouth.send(b"!")

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            self._wakes.clear()
            thread = self._thread
            self._poke()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_END_WITHIN_S)

    def _run(self) -> None:
        pause_s = _LEAST_PAUSE_S
        with self._ear, self._mouth:
            while not self._closed.is_set():
                try:
                    link = self._server.dial()
                except StoreError as error:
                    _log.debug("redis_listener_away error=%s", error)
                else:
                    began = time.monotonic()
                    self._follow(link)
                    if time.monotonic() - began > _MOST_PAUSE_S:
                        pause_s = _LEAST_PAUSE_S
                self._let_go()
                self._closed.wait(pause_s)
                pause_s = min(2 * pause_s, _MOST_PAUSE_S)

    def _let_go(self) -> None:
        """Nobody waits for a server that is away."""
        with self._lock:
            ready, self._ready = self._ready, {}
        for each in ready.values():
            each.set()

    def _follow(self, link: Link) -> None:
        try:
            with selectors.DefaultSelector() as either:
                either.register(link._sock, selectors.EVENT_READ)  # noqa: SLF001 - redis-py waits for one socket only
                either.register(self._ear, selectors.EVENT_READ)
                self._hear(link, either)
        except (RedisError, OSError) as error:
            _log.debug("redis_listener_lost error=%s", error)
        finally:
            link.disconnect()

    def _hear(self, link: Link, either: selectors.BaseSelector) -> None:
        known: set[str] = set()
        asked = False
        while not self._closed.is_set():
            known = self._subscribe(link, known)
            ready = either.select(_SILENCE_S)
            with suppress(BlockingIOError):
                self._ear.recv(4096)
            heard = False
            while link.can_read(timeout=0):
                self._tell(link.read_response())
                heard = True
            if heard:
                asked = False
            elif not ready:
                if asked:
                    raise TimeoutError("no sign of life")
                send(link, "PING")
                asked = True

    def _subscribe(self, link: Link, known: set[str]) -> set[str]:
        with self._lock:
            wanted = set(self._wakes)
        if wanted - known:
            send(link, "SUBSCRIBE", *(self._channel + sid for sid in sorted(wanted - known)))
        if known - wanted:
            send(link, "UNSUBSCRIBE", *(self._channel + sid for sid in sorted(known - wanted)))
        return wanted

    def _tell(self, message: Any) -> None:  # noqa: ANN401 - what the server says
        if not isinstance(message, list) or message[0] not in {b"message", b"subscribe"}:
            return
        sid = message[1].decode().removeprefix(self._channel)
        with self._lock:
            wake = self._wakes.get(sid)
            ready = self._ready.pop(sid, None)
        if ready is not None:
            ready.set()
        if message[0] == b"message" and wake is not None:
            try:
                limit, grants, now = codec.told_of(message[2])
                wake(limit, grants, now)
            except Exception:  # noqa: BLE001 - one caller's mistake must not end it for all
                _log.exception("limit_wake_failed sid=%s", sid)
