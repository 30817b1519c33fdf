"""Reads HTTP for the server: a request whose head does not come in time, or is none, is answered and let go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from forebay import ids
from forebay.observe import emit
from forebay.server.file_limit import MAX_CONNECTIONS, EventRate
from forebay.server.guarding import MAX_TARGET_BYTES
from forebay.server.request_room import PLACE, Place

HEADERS_WITHIN_S = 10.0
_MAX_HEAD_BYTES = 48 * 1024
_MAX_AHEAD = 32
_RETRY_AFTER_S = 2
_MAX_JOINED = 64 * 1024
_STANDARD = "Send HTTP/1.1 as its standard has it."


class _BadHead(Exception):
    """The parser makes of it what it makes of all that is no HTTP."""


class _Joining:
    """A transport that writes the head of an answer together with what follows in the same turn of the loop.

    uvicorn writes head and body apart: two system calls, two packets and two reads of the client for most answers.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: bytes | None = None
        self._begun = False

    def write(self, data: bytes) -> None:
        if self._held is not None and len(data) <= _MAX_JOINED:
            held, self._held = self._held, None
            self._transport.write(held + data)
        elif self._begun:
            self._flush()
            self._transport.write(data)
        else:
            self._begun = True
            self._held = data
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _flush(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._transport.write(held)


class Protocol(HttpToolsProtocol):
    headers_within_s: ClassVar[float] = HEADERS_WITHIN_S
    max_connections: ClassVar[int] = MAX_CONNECTIONS
    idle: ClassVar[dict[str | None, dict[Protocol, None]]] = {}  # by the tenant or key that asked last, oldest first
    rate_of_full: ClassVar[EventRate] = EventRate()
    _owner: str | None = None
    _patience: asyncio.TimerHandle | None = None
    _in_body = False
    _unknown_coding = False
    _unread_bytes = 0
    _asked: Sequence[RequestResponseCycle] = ()
    url = b""  # what came of it so far, kept by uvicorn from the first byte of a request on

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._wait()
        self._join_idle()
        if len(self.connections) > self.max_connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        self._unread_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        # Neither heads nor what else is no body, such as trailers, are bounded by the parser.
        if self._unread_bytes > _MAX_HEAD_BYTES and self._answering:
            self.transport.close()
        elif self._unread_bytes > _MAX_HEAD_BYTES:
            self._refuse_size()
        elif self._answering:
            self._stop_waiting()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.forget()
        # uvicorn tells the newest request alone: one that is being answered before it would go on for nobody.
        for cycle in self._asked:
            if not cycle.response_complete:
                cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def on_header(self, name: bytes, value: bytes) -> None:
        # A trailer is no header: what was decided by them is decided.
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._check_head()
        super().on_headers_complete()
        self.cycle.transport = _Joining(self.transport, self.loop)  # type: ignore[assignment]  # all that a cycle uses
        self._asked = [*(each for each in self._asked if not each.response_complete), self.cycle]
        self._in_body = True
        self._unread_bytes = 0
        self._leave_idle()
        if self.parser.should_upgrade():
            # The parser reads nothing more as HTTP, and there is nothing else that we speak.
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._unread_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        self._unread_bytes = 0
        self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Also a connection that is closing: whoever reads the end of an answer slowly must not keep others out.
        if not self._answering:
            self._join_idle()
        # What is left of a body that nobody reads must not keep the line open for as long as its sender likes.
        if self._in_body and not self._answering:
            self._wait()

    def send_400_response(self, msg: str) -> None:
        if not self._answering and len(self.url) > MAX_TARGET_BYTES:
            self._refuse_size()
        elif not self._answering and self._unknown_coding:
            detail = "The body is sent with a Transfer-Encoding other than chunked."
            self._refuse(501, "unknown_coding", detail, remedy="Send Transfer-Encoding: chunked, or Content-Length.")
        elif not self._answering:
            self._refuse(400, "bad_http", msg)
        elif self._in_body and not self.cycle.response_started and len(self._asked) == 1:
            # Whoever reads the body hears that its sender is gone.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self._refuse(400, "bad_http", "The body is not framed as HTTP/1.1 has it.")
        elif self._in_body:
            self.transport.close()
        else:
            # What came before it is answered, and then it ends.
            self.cycle.keep_alive = False

    def _make_room(self) -> None:
        """Close the oldest idle connection of whoever has the most of them; if there is none, refuse this one."""
        if count := self.rate_of_full.due_count():
            emit("connections_full", connections=self.max_connections, count=count)
        crowds = sorted(self.idle.values(), key=len, reverse=True)
        oldest = next((first for first in map(_first, crowds) if first is not self), None)
        if oldest is not None:
            oldest.transport.abort()
            # Its end is told only in the next turn of the loop, and more may come before.
            oldest.forget()
            return
        self._refuse(
            503,
            "too_many_connections",
            f"This server has {self.max_connections} connections already, and all of them are busy.",
            remedy="Ask again in a moment, or ask another server.",
            retry_after_s=_RETRY_AFTER_S,
        )

    def _join_idle(self) -> None:
        self._leave_idle()
        if self.cycle is not None:
            place = self.cycle.scope.get(PLACE)
            self._owner = place.flow if isinstance(place, Place) else None
        self.idle.setdefault(self._owner, {})[self] = None

    def _leave_idle(self) -> None:
        crowd = self.idle.get(self._owner, {})
        crowd.pop(self, None)
        if not crowd:
            self.idle.pop(self._owner, None)

    def forget(self) -> None:
        self._leave_idle()
        self.connections.discard(self)

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _check_head(self) -> None:
        version = self.parser.get_http_version()
        hosts = sum(name == b"host" for name, _ in self.headers)
        if version not in {"1.0", "1.1"} or hosts > 1 or (version == "1.1" and not hosts):
            raise _BadHead
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings and codings != [b"chunked"]:
            self._unknown_coding = True
            raise _BadHead
        # All that came in one read is parsed: a client that does not wait for answers must not fill the memory.
        if len(self.pipeline) >= _MAX_AHEAD:
            raise _BadHead

    def _wait(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(self.headers_within_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if self._in_body:
            self.transport.close()
        elif not self.transport.is_closing():
            self._refuse(408, "too_slow", f"The request's head did not come within {self.headers_within_s:g} s.")

    def _refuse_size(self) -> None:
        """A path that is too long is the cause, whatever follows it."""
        if len(self.url) > MAX_TARGET_BYTES:
            detail = f"The path has more than {MAX_TARGET_BYTES} bytes."
            self._refuse(414, "target_too_long", detail, remedy="Shorten it.")
        else:
            detail = f"The head has more than {_MAX_HEAD_BYTES} bytes."
            self._refuse(431, "headers_too_large", detail, remedy="Send fewer headers.")

    def _refuse(
        self, status: int, code: str, detail: str, *, remedy: str = _STANDARD, retry_after_s: int | None = None
    ) -> None:
        phrase = HTTPStatus(status).phrase
        again = {} if retry_after_s is None else {"retry_after": retry_after_s}
        more = "" if retry_after_s is None else f"retry-after: {retry_after_s}\r\n"
        document: dict[str, object] = {
            "type": f"urn:forebay:problem:{code}",
            "title": phrase,
            "status": status,
            "detail": detail,
            "code": code,
            "remedy": remedy,
            "request_id": ids.random_id(),
            **again,
        }
        body = json.dumps(document).encode()
        head = (
            f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\n{more}connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


def _first(crowd: dict[Protocol, None]) -> Protocol:
    return next(iter(crowd))


def bounded_protocol(headers_within_s: float, max_connections: int) -> type[Protocol]:
    """A protocol that waits for so long for a head, on so many connections."""
    named: dict[str, Any] = {
        "headers_within_s": headers_within_s,
        "max_connections": max_connections,
        "idle": {},
        "rate_of_full": EventRate(),
    }
    return type("Protocol", (Protocol,), named)
