"""Watches a store from outside: how much a single step does, and how many sessions it clears away."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

_PAUSE_S = 0.003
_END_S = 5.0
_READ = 1 << 20

Counts = tuple[int, int]
"""The number of writes, and how many sessions there are: of one instant."""


class Steps(Protocol):
    def stop(self) -> str:
        """Return what was wrong with the worst step, or an empty text; then it watches no more."""

    @property
    def figures(self) -> dict[str, int]: ...


class CommandSteps:
    """Of Redis: every command of every script, as the server itself tells it.

    `most` is how many one run may have, `most_cleared` how many of them may be the command that drops a session.
    """

    def __init__(self, place: tuple[str, int], *, drops: bytes, most: int, most_cleared: int) -> None:
        self._drops = drops
        self._most, self._most_cleared = most, most_cleared
        self._steps = 0
        self._worst, self._worst_cleared = 0, 0
        self._commands, self._cleared = 0, 0
        self._socket = socket.create_connection(place, timeout=_END_S)
        self._socket.sendall(b"MONITOR\r\n")
        assert self._socket.recv(5) == b"+OK\r\n"
        self._socket.settimeout(None)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def figures(self) -> dict[str, int]:
        return {
            "steps that were watched": self._steps,
            "commands in the longest of them": self._worst,
            "sessions that one of them cleared away": self._worst_cleared,
        }

    def _run(self) -> None:
        rest = b""
        with suppress(OSError):  # the server may be stopped first
            while data := self._socket.recv(_READ):
                *lines, rest = (rest + data).split(b"\r\n")
                for line in lines:
                    self._count(line)

    def _count(self, line: bytes) -> None:
        head = line[:200]
        if b" lua] " in head:
            self._commands += 1
            self._worst = max(self._worst, self._commands)
            self._cleared += self._drops in head
            self._worst_cleared = max(self._worst_cleared, self._cleared)
        elif b'] "EVAL' in head:
            self._steps += 1
            self._commands, self._cleared = 0, 0

    def stop(self) -> str:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(_END_S)
        self._socket.close()
        if self._worst > self._most:
            return f"one step took {self._worst} commands, {self._most} are allowed"
        if self._worst_cleared > self._most_cleared:
            return f"one step cleared {self._worst_cleared} sessions away, {self._most_cleared} are allowed"
        return ""


class RowSteps:
    """Of a database: between two looks, no more than `most` sessions are cleared away with each write."""

    def __init__(self, look: Callable[[], Counts], most: int, *, close: Callable[[], None] = lambda: None) -> None:
        self._look = look
        self._close = close
        self._most = most
        self._steps = 0
        self._wrong = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def figures(self) -> dict[str, int]:
        return {"looks at which sessions had been cleared away": self._steps}

    def _run(self) -> None:
        writes, sessions = self._look()
        while not self._ended.wait(_PAUSE_S):
            before = writes, sessions
            writes, sessions = self._look()
            steps, cleared = writes - before[0], before[1] - sessions
            self._steps += cleared > 0
            if cleared > self._most * steps:
                self._wrong = f"{steps} steps cleared {cleared} sessions away, {self._most} each are allowed"

    def stop(self) -> str:
        self._ended.set()
        self._thread.join(_END_S)
        self._close()
        return self._wrong
