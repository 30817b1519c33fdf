"""A thread that follows what a server tells on one connection, and finds a new one whenever that breaks."""

from __future__ import annotations

import logging
import socket
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Generic, TypeVar

from forebay.errors import StoreClosed, StoreError
from forebay.supervisor import SupervisedThread

L = TypeVar("L")

_LEAST_PAUSE_S = 0.1
_MOST_PAUSE_S = 5.0
_READY_WITHIN_S = 2.0
_END_WITHIN_S = 4.0

_log = logging.getLogger(__name__)


class Follower(ABC, Generic[L]):
    """Only its thread uses the connection; others leave word under the lock, and `_poke` it by its ear."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: SupervisedThread | None = None
        self._closed = threading.Event()

    @abstractmethod
    def _dial(self) -> L:
        """A new connection, or a StoreError."""

    @abstractmethod
    def _follow(self, link: L) -> bool:
        """Hear what it tells until it breaks; whether another one is worth trying."""

    @abstractmethod
    def _hang_up(self, link: L) -> None:
        """Close the connection."""

    @abstractmethod
    def _let_go(self) -> None:
        """Nobody waits for a server that is away."""

    @abstractmethod
    def _forget(self) -> None:
        """Nobody listens any more; the lock is held."""

    def _begin(self) -> None:
        """Somebody is about to listen, who holds the lock: wake the thread, or make it."""
        if self._closed.is_set():
            raise StoreClosed("The store was closed.", remedy="Open it again.")
        if self._thread is None:
            self._ear, self._mouth = socket.socketpair()
            self._ear.settimeout(0)
            self._mouth.settimeout(0)
            self._thread = SupervisedThread(self._name, self._run)
            self._thread.start()
        self._poke()

    def _poke(self) -> None:
        if self._thread is not None:
            with suppress(OSError):  # full: it has been poked enough; or it has ended
                self._mouth.send(b"!")

    def _poked(self) -> None:
        """Its ear is empty again."""
        with suppress(BlockingIOError):
            self._ear.recv(4096)

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            self._forget()
            thread = self._thread
            self._poke()
        if thread is not None:
            thread.stop()
            thread.join(_END_WITHIN_S)
            if not thread.is_alive:
                self._ear.close()
                self._mouth.close()

    def _run(self) -> None:
        try:
            self._follow_on()
        except BaseException:
            self._let_go()
            raise
        self._ear.close()
        self._mouth.close()

    def _follow_on(self) -> None:
        pause_s = _LEAST_PAUSE_S
        again = True
        while again and not self._closed.is_set():
            try:
                link = self._dial()
            except StoreError as error:
                _log.debug("%s_away error=%s", self._name, error)
            else:
                try:
                    began = time.monotonic()
                    again = self._follow(link)
                finally:
                    self._hang_up(link)
                if time.monotonic() - began > _MOST_PAUSE_S:
                    pause_s = _LEAST_PAUSE_S
            self._let_go()
            if again:
                self._closed.wait(pause_s)
                pause_s = min(2 * pause_s, _MOST_PAUSE_S)


def known_to_server(ready: threading.Event) -> None:
    """Wait until the server knows of a listener, or cannot be asked."""
    ready.wait(_READY_WITHIN_S)
