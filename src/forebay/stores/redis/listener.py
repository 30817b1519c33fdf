"""Hears what sessions of this process are given by others: one connection and one thread, however many sessions."""

from __future__ import annotations

import logging
import selectors
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError, ResponseError

from forebay.errors import StoreUnreachable
from forebay.observe import emit
from forebay.stores.follower import Follower, known_to_server
from forebay.stores.redis import codec
from forebay.stores.redis.connection import send
from forebay.stores.redis.refusals import is_forbidden
from forebay.supervisor import report_failure

if TYPE_CHECKING:
    from forebay.stores.limit_base import Wake
    from forebay.stores.redis.connection import Link, Server
    from forebay.stores.redis.servers import Servers

_SILENCE_S = 2.0  # then the server is asked for a sign of life, and given as long again

_log = logging.getLogger(__name__)


class Listener(Follower["Link"]):
    def __init__(self, servers: Servers, channel: str) -> None:
        super().__init__("forebay-redis-listener")
        self._servers = servers
        self._server: Server | None = None
        self._complained = False
        self._channel = channel
        self._wakes: dict[str, Wake] = {}
        self._ready: dict[str, threading.Event] = {}

    def add(self, sid: str, wake: Wake) -> Callable[[], None]:
        """Returns when the server knows of it, or cannot be asked; what it returns stops it."""
        ready = threading.Event()
        with self._lock:
            self._begin()
            self._wakes[sid] = wake
            self._ready[sid] = ready
        known_to_server(ready)
        return lambda: self._drop(sid, wake)

    def _drop(self, sid: str, wake: Wake) -> None:
        with self._lock:
            if self._wakes.get(sid) is wake:
                del self._wakes[sid]
                self._poke()

    def _forget(self) -> None:
        self._wakes.clear()

    def _dial(self) -> Link:
        server = self._servers.of(None)
        try:
            link = server.dial()
        except StoreUnreachable:
            self._servers.doubt(server)
            raise
        self._server = server
        return link

    def _let_go(self) -> None:
        with self._lock:
            ready, self._ready = self._ready, {}
        for each in ready.values():
            each.set()

    def _follow(self, link: Link) -> bool:
        try:
            with selectors.DefaultSelector() as either:
                either.register(link._sock, selectors.EVENT_READ)  # noqa: SLF001 - redis-py waits for one socket only
                either.register(self._ear, selectors.EVENT_READ)
                self._hear(link, either)
        except ResponseError as error:
            self._complain(error)
        except (RedisError, OSError) as error:
            _log.debug("redis_listener_lost error=%s", error)
        return True

    def _check_rights(self, link: Link) -> None:
        """Publish to nobody: a script that may not publish says nothing of it, since limits hold without."""
        send(link, "PUBLISH", self._channel, "")
        try:
            link.read_response()
        except ResponseError as error:
            self._complain(error)

    def _complain(self, error: ResponseError) -> None:
        """Report once what the server refuses: until it is granted, callers hear of free slots by heartbeats alone."""
        if self._server is not None and is_forbidden(error) and not self._complained:
            self._complained = True
            refused = self._server.refusal(error)
            emit("limit_wakes_forbidden", problem=refused.what, remedy=refused.remedy)
        _log.debug("redis_listener_refused error=%s", error)

    def _hang_up(self, link: Link) -> None:
        link.disconnect()

    def _hear(self, link: Link, either: selectors.BaseSelector) -> None:
        self._check_rights(link)
        known: set[str] = set()
        asked = False
        while not self._closed.is_set() and self._server is not None and self._servers.is_current(self._server):
            known = self._subscribe(link, known)
            ready = either.select(_SILENCE_S)
            self._poked()
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
            except Exception as error:  # noqa: BLE001 - one caller's mistake must not end it for all
                report_failure(self._name, error, restart_count=0, pause_s=0)
