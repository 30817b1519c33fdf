"""Keeps connections for the next call, and sends each command to the server that has its key."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004 - which redis-py has of its own
)

from forebay.errors import StoreBusy, StoreClosed, StoreUnreachable
from forebay.stores.redis.connection import Command, Link, Server, is_writable, read_reply, send, skip_reply
from forebay.stores.redis.refusals import is_of_replica
from forebay.stores.redis.servers import Servers

_MAX_IDLE = 4
_SURELY_OPEN_S = 0.1
_MAX_UNREAD = 16
_MOST_SERVERS = 5  # that one command is passed on to
_SCAN_COUNT = 1000


class _Kept(NamedTuple):
    """An idle connection; `unread`: replies that are still to come, of commands that nobody waited for.

    `is_late`: the server has not answered in time. It gets nothing more on this connection before it has: a server that
    is overloaded would otherwise be loaded with repeated requests, and with connections that are opened again.
    """

    link: Link
    since: float
    unread: int
    is_late: bool = False


class _NotSentError(Exception):
    """The server could not be reached; `error` says why."""

    def __init__(self, error: StoreUnreachable) -> None:
        self.error = error


class Links:
    """Idle connections by server; as many as there are threads that call at once."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._lock = threading.RLock()  # the handler of a signal may release a slot
        self._idle: dict[Server, list[_Kept]] = {}
        self._closed = False

    def call(self, *command: str | bytes | int, key: str | None = None) -> Any:  # noqa: ANN401 - what the server replies
        """Run a command on the server that has the key; on any server without one.

        It is passed on where a server says that it did nothing: it is not the right one, or it cannot be reached.
        Whatever may have been done is never sent again.
        """
        self._check_open()
        server, asking = self._servers.of(key), False
        for _ in range(_MOST_SERVERS):
            with server.told():
                try:
                    return self._call_at(server, command, asking=asking)
                except AskError as error:
                    asking = not isinstance(error, MovedError)
                    server = self._servers.redirected(server, error)
                except ResponseError as error:
                    if isinstance(error, ClusterDownError):
                        self._servers.doubt(server)
                    if not is_of_replica(error):
                        raise
                    server, asking = self._servers.demoted(server, error), False
                except _NotSentError as error:
                    other = self._servers.instead_of(server, key)
                    if other is None:
                        raise error.error from error.error.__cause__
                    server, asking = other, False
                except RedisError:
                    self._servers.doubt(server)
                    raise
        raise StoreBusy(
            f"{self._servers.place} passed a command on {_MOST_SERVERS} times.",
            remedy="Its keys are moving: try again.",
        )

    def _call_at(self, server: Server, command: Command, *, asking: bool) -> Any:  # noqa: ANN401 - same
        kept = self._take_or_dial(server)
        link, unread, is_sent = kept.link, kept.unread, False
        try:
            if asking:
                send(link, "ASKING")
            send(link, *command)
            is_sent = not asking
            while unread:
                skip_reply(link)
                unread -= 1
            reply = _read_reply(link, asking=asking)
        except ResponseError:
            self._give_back(server, link)
            raise
        except TimeoutError:
            if is_sent:
                self._give_back(server, link, unread + 1, is_late=True)
            else:
                link.disconnect()
            raise
        except BaseException:
            link.disconnect()
            raise
        self._give_back(server, link)
        return reply

    def call_many(self, commands: Sequence[tuple[str, Command]]) -> list[Any | None]:
        """Send commands, each with its key, in one round trip for each server, and return their replies in order.

        None stands for a command that was not done, and has to be called by itself.
        """
        self._check_open()
        replies: list[Any | None] = [None] * len(commands)
        by_server: dict[Server, list[int]] = {}
        for at, (key, _) in enumerate(commands):
            by_server.setdefault(self._servers.of(key), []).append(at)
        for server, places in by_server.items():
            found = self._call_all(server, [commands[at][1] for at in places])
            for at, reply in zip(places, found, strict=True):
                replies[at] = reply
        return replies

    def _call_all(self, server: Server, commands: Sequence[Command]) -> list[Any | None]:
        replies: list[Any | None] = []
        with server.told():
            try:
                kept = self._take_or_dial(server)
            except _NotSentError:
                return [None] * len(commands)
            link = kept.link
            try:
                for command in commands:
                    send(link, *command)
                for _ in range(kept.unread):
                    skip_reply(link)
                failed: ResponseError | None = None
                for _ in commands:
                    try:
                        replies.append(read_reply(link))
                    except (AskError, NoScriptError):
                        replies.append(None)
                    except ResponseError as error:
                        failed = failed or error
            except BaseException:
                link.disconnect()
                self._servers.doubt(server)
                raise
            self._give_back(server, link)
            if failed is not None:
                raise failed
        return replies

    def send(self, key: str, *command: str | bytes | int) -> bool:
        """Send a command and leave its reply to the next call on that connection; False if that would have to wait.

        What raises in between, such as the handler of a signal, costs the connection and nothing else.
        """
        server = self._servers.known(key)
        if server is None:
            return False
        try:
            kept = self._take(server)
        except StoreClosed:
            return False
        if kept is None:
            return False
        try:
            if kept.is_late or kept.unread >= _MAX_UNREAD or not is_writable(kept.link):
                self._give_back(server, kept.link, kept.unread, is_late=kept.is_late)
                return False
            send(kept.link, *command)
        except (RedisError, OSError):
            kept.link.disconnect()
            return False
        except BaseException:
            kept.link.disconnect()
            raise
        self._give_back(server, kept.link, kept.unread + 1)
        return True

    def keys(self, pattern: str) -> Iterator[str]:
        """All keys of a pattern, on all servers that have keys."""
        self._check_open()
        for server in self._servers.all():
            cursor = b"0"
            while True:
                cursor, found = self.ask(server, "SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT)
                yield from (key.decode() for key in found)
                if cursor == b"0":
                    break

    def ask(self, server: Server, *command: str | bytes | int) -> Any:  # noqa: ANN401 - what the server replies
        """Run a command on one server."""
        with server.told():
            try:
                return self._call_at(server, command, asking=False)
            except _NotSentError as error:
                self._servers.doubt(server)
                raise error.error from error.error.__cause__
            except ResponseError:
                raise
            except RedisError:
                self._servers.doubt(server)
                raise

    def _take_or_dial(self, server: Server) -> _Kept:
        kept = self._take(server)
        if kept is not None:
            return _answered(kept) if kept.is_late else kept
        try:
            return _Kept(server.dial(), 0.0, 0)
        except StoreUnreachable as error:
            raise _NotSentError(error) from error

    def _take(self, server: Server) -> _Kept | None:
        """One that is open, as far as one can tell without asking the server."""
        while True:
            with self._lock:
                self._check_open()
                try:
                    kept = self._idle[server].pop()
                except (KeyError, IndexError):
                    return None
            try:
                if kept.unread:
                    kept = _caught_up(kept)
                if kept.unread or time.monotonic() - kept.since < _SURELY_OPEN_S or not kept.link.can_read(timeout=0):
                    return kept
            except (RedisError, OSError):
                pass  # the server has closed it
            kept.link.disconnect()

    def _give_back(self, server: Server, link: Link, unread: int = 0, *, is_late: bool = False) -> None:
        is_current = self._servers.is_current(server)
        others = [each for each in list(self._idle) if each is not server and not self._servers.is_current(each)]
        left: list[_Kept] = []
        with self._lock:
            idle = self._idle.setdefault(server, [])
            if not self._closed and is_current and len(idle) < _MAX_IDLE:
                idle.append(_Kept(link, time.monotonic(), unread, is_late))
            else:
                left.append(_Kept(link, 0.0, 0))
            for other in others:
                left += self._idle.pop(other, [])
        for kept in left:
            kept.link.disconnect()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("The limit store was closed.", remedy="Open it again.")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, {}
        for each in idle.values():
            for kept in each:
                kept.link.disconnect()


def _read_reply(link: Link, *, asking: bool) -> Any:  # noqa: ANN401 - what the server replies
    """Read a command's reply; if the server refused the ASKING before it, and so the command, raise why."""
    refused: ResponseError | None = None
    if asking:
        try:
            read_reply(link)
        except ResponseError as error:
            refused = error
    try:
        return read_reply(link)
    except MovedError:
        if refused is not None:
            raise refused from None
        raise


def _answered(kept: _Kept) -> _Kept:
    """Wait for what the server owes; a connection on which nothing comes for as long again is given up."""
    try:
        for _ in range(kept.unread):
            skip_reply(kept.link)
    except BaseException:
        kept.link.disconnect()
        raise
    return kept._replace(unread=0, is_late=False)


def _caught_up(kept: _Kept) -> _Kept:
    """With those replies read that have come."""
    unread = kept.unread
    while unread and kept.link.can_read(timeout=0):
        skip_reply(kept.link)
        unread -= 1
    return kept._replace(unread=unread, is_late=kept.is_late and unread > 0)
