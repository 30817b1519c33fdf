"""Opens connections to a Redis or Valkey server, and turns what it and redis-py report into our errors."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Protocol

from redis.exceptions import AuthenticationError, BusyLoadingError, NoScriptError, RedisError, ResponseError

from forebay.errors import (
    MaybeApplied,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from forebay.stores.limit_base import RedisClient
from forebay.stores.redis.endpoint import read_endpoint
from forebay.stores.redis.tls_check import check_tls

_MAX_IDLE = 4
_SURELY_OPEN_S = 0.1
_MAX_UNREAD = 16
# A script's error carries the text of the command's that failed in it, at a place that differs between versions.
_SAID: dict[str, tuple[type[StoreError], str]] = {
    "OOM command not allowed": (StoreFull, "Raise its maxmemory, or give limits a server of their own."),
    "READONLY": (StoreReadOnly, "It is a replica: give the address of the primary."),
    "read only replica": (StoreReadOnly, "It is a replica: give the address of the primary."),
    "MISCONF": (StoreReadOnly, "It cannot save to its disk, and so refuses to write: see the server's log."),
    "MASTERDOWN": (StoreBusy, "Its primary is away: try again, or give the address of another."),
    "BUSY ": (StoreBusy, "Somebody's script runs there for too long: try again."),
    "WRONGTYPE": (StoreCorrupt, "Another program uses this key: choose another database or environment."),
    "holds no record": (StoreCorrupt, "Another program uses this key: choose another database or environment."),
    "NOPERM": (StoreError, "Allow this user EVAL, EVALSHA, GET, SET, SCAN, PUBLISH and SUBSCRIBE on forebay's keys."),
    "DB index is out of range": (StoreError, "Choose a database that the server has: redis://host:6379/0."),
    "MOVED": (StoreError, "It is one node of a cluster: give the address of a server that has all keys."),
}


class Link(Protocol):
    """What we use of a connection of redis-py's."""

    _sock: socket.socket

    def connect(self) -> None: ...

    def disconnect(self) -> None: ...

    def send_packed_command(self, packed: list[bytes], *, check_health: bool) -> None: ...

    def read_response(self) -> Any: ...  # noqa: ANN401 - what the server says

    def can_read(self, timeout: float) -> bool: ...


class Server:
    """One address: dials it, and names it in errors without its password."""

    def __init__(self, source: str | RedisClient) -> None:
        self._endpoint = read_endpoint(source)
        self.place = self._endpoint.place

    def dial(self) -> Link:
        with self.told(sent=False):
            link: Link = self._endpoint.kind(**self._endpoint.options)
            try:
                link.connect()
            except RedisError as error:
                check_tls(self._endpoint, error)
                raise
        return link

    @contextmanager
    def told(self, *, sent: bool = True) -> Iterator[None]:
        """Say what an error means; `sent`: whether the server may have begun."""
        try:
            yield
        except AuthenticationError as error:
            raise StoreError(
                f"{self.place} refused the user or the password.", remedy="Check both in the address."
            ) from error
        except BusyLoadingError as error:
            raise StoreBusy(f"{self.place} is loading its data.", remedy="Try again in a moment.") from error
        except NoScriptError:
            raise
        except ResponseError as error:
            raise self._refusal(error) from error
        except RedisError as error:
            if sent:
                raise MaybeApplied(
                    f"{self.place} did not answer: {error}.", remedy="Repeat the call; if it goes on, check the server."
                ) from error
            raise StoreUnreachable(
                f"{self.place} cannot be reached: {error}.", remedy="Check that it runs, and the address."
            ) from error

    def _refusal(self, error: ResponseError) -> StoreError:
        text = f"{getattr(error, 'status_code', None) or ''} {error}".strip()
        for said, (kind, remedy) in _SAID.items():
            if said in text:
                return kind(f"{self.place} refused: {text}.", remedy=remedy)
        return StoreError(f"{self.place} refused a step: {text}.", remedy="Please report this.")


class _Kept(NamedTuple):
    """An idle connection; `unread`: replies that are still to come, of commands that nobody waited for."""

    link: Link
    since: float
    unread: int


class Links:
    """Connections that are kept for the next call; as many as there are threads that call at once."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._idle: list[_Kept] = []
        self._closed = False

    def call(self, *command: str | bytes | int) -> Any:  # noqa: ANN401 - what the server replies
        kept = self._take()
        link = kept.link if kept else self._server.dial()
        with self._server.told():
            try:
                send(link, *command)
                for _ in range(kept.unread if kept else 0):
                    _skip_reply(link)
                reply = link.read_response()
            except ResponseError:
                self._give_back(link)
                raise
            except BaseException:
                link.disconnect()
                raise
        self._give_back(link)
        return reply

    def call_many(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Any]:
        """Send all of them, then read the replies: one round trip. A server's error is raised after the last reply."""
        kept = self._take()
        link = kept.link if kept else self._server.dial()
        replies: list[Any] = []
        failed: ResponseError | None = None
        with self._server.told():
            try:
                for command in commands:
                    send(link, *command)
                for _ in range(kept.unread if kept else 0):
                    _skip_reply(link)
                for _ in commands:
                    try:
                        replies.append(link.read_response())
                    except ResponseError as error:
                        failed = failed or error
            except BaseException:
                link.disconnect()
                raise
            self._give_back(link)
            if failed is not None:
                raise failed
        return replies

    def send(self, *command: str | bytes | int) -> bool:
        """Send a command and leave its reply to the next call on that connection; False if that would have to wait.

        What raises in between, such as the handler of a signal, costs the connection and nothing else.
        """
        try:
            kept = self._take()
        except StoreClosed:
            return False
        if kept is None:
            return False
        try:
            if kept.unread >= _MAX_UNREAD or not _is_writable(kept.link):
                self._give_back(kept.link, kept.unread)
                return False
            send(kept.link, *command)
        except (RedisError, OSError):
            kept.link.disconnect()
            return False
        except BaseException:
            kept.link.disconnect()
            raise
        self._give_back(kept.link, kept.unread + 1)
        return True

    def _take(self) -> _Kept | None:
        """One that is open, as far as one can tell without asking the server."""
        while True:
            with self._lock:
                if self._closed:
                    raise StoreClosed("The limit store was closed.", remedy="Open it anew.")
                if not self._idle:
                    return None
                kept = self._idle.pop()
            try:
                if kept.unread:
                    kept = _caught_up(kept)
                if kept.unread or time.monotonic() - kept.since < _SURELY_OPEN_S or not kept.link.can_read(timeout=0):
                    return kept
            except (RedisError, OSError):
                pass  # the server has closed it
            kept.link.disconnect()

    def _give_back(self, link: Link, unread: int = 0) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _MAX_IDLE:
                self._idle.append(_Kept(link, time.monotonic(), unread))
                return
        link.disconnect()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for kept in idle:
            kept.link.disconnect()


def send(link: Link, *command: str | bytes | int) -> None:
    parts = [b"*%d\r\n" % len(command)]
    for part in command:
        raw = part if isinstance(part, bytes) else str(part).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(raw), raw))
    link.send_packed_command([b"".join(parts)], check_health=False)


def _caught_up(kept: _Kept) -> _Kept:
    """With those replies read that have come."""
    unread = kept.unread
    while unread and kept.link.can_read(timeout=0):
        _skip_reply(kept.link)
        unread -= 1
    return kept._replace(unread=unread)


def _skip_reply(link: Link) -> None:
    with suppress(ResponseError):
        link.read_response()


def _is_writable(link: Link) -> bool:
    """Whether a small command fits into the buffers of this machine."""
    asked = select.poll()
    asked.register(link._sock, select.POLLOUT)  # noqa: SLF001 - redis-py has no question for it
    return bool(asked.poll(0))
