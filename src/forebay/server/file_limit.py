"""Raises this process's limit of open files, and divides it between connections, uploads and listeners."""

from __future__ import annotations

import asyncio
import resource
import time
from contextlib import suppress
from typing import Any, Final, NamedTuple

from forebay.observe import emit
from forebay.server.upload_room import MAX_UPLOADS

MAX_CONNECTIONS: Final = 8192
MAX_LISTENERS: Final = 2000
_ENOUGH = 65_536
_RESERVED = 128  # for stores, children and logs
_LEAST = 16
_ACCEPT = "socket.accept() out of system resource"
_LOG_EVERY_S = 10.0


class Room(NamedTuple):
    """How many of each fit into a limit of open files; an upload may have two files beside its connection."""

    connections: int
    uploads: int
    listeners: int


def raise_limit() -> int:
    """Raise the soft limit of open files as far as the hard one lets it; return what holds from now on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return current_limit()


def current_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft


def divide(limit: int) -> Room:
    uploads = max(_LEAST, min(MAX_UPLOADS, limit // 8))
    connections = max(_LEAST, min(MAX_CONNECTIONS, limit - limit // 8 - _RESERVED - 2 * uploads))
    return Room(connections, uploads, max(1, min(MAX_LISTENERS, connections // 2)))


class EventRate:
    """Counts what happens, so that it is logged every 10 s at most."""

    def __init__(self) -> None:
        self._count = 0
        self._logged_at = float("-inf")

    def due_count(self) -> int:
        """Count once more; return how often it happened since it was logged last, 0 where that was just now."""
        self._count += 1
        now = time.monotonic()
        if now - self._logged_at < _LOG_EVERY_S:
            return 0
        count, self._count, self._logged_at = self._count, 0, now
        return count


class AcceptErrors:
    """An exception handler of an event loop: logs failed accepts now and then, not thousands of times."""

    def __init__(self) -> None:
        self._rate = EventRate()

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context.get("message") != _ACCEPT:
            loop.default_exception_handler(context)
            return
        if count := self._rate.due_count():
            emit("accept_failed", text=str(context.get("exception", "")), count=count)
