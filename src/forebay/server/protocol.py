"""Reads HTTP for the server: a request whose head does not come in time, or is none, is answered and let go."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from forebay import ids

HEADERS_WITHIN_S = 10.0
_PHRASES = {400: "Bad Request", 408: "Request Timeout"}


class Protocol(H11Protocol):
    headers_within_s: ClassVar[float] = HEADERS_WITHIN_S
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        # Once an answer is on its way there is no place for another.
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE} and (
            self.cycle is None or self.cycle.response_complete
        ):
            self._refuse(400, "bad_http", msg)
        else:
            self.transport.close()

    def _wait(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(self.headers_within_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if not self.transport.is_closing():
            self._refuse(408, "too_slow", f"The request's head did not come within {self.headers_within_s:g} s.")

    def _refuse(self, status: int, code: str, detail: str) -> None:
        phrase = _PHRASES[status]
        document = {
            "type": f"urn:forebay:problem:{code}",
            "title": phrase,
            "status": status,
            "detail": detail,
            "code": code,
            "remedy": "Send HTTP/1.1 as its standard has it.",
            "request_id": ids.random_id(),
        }
        body = json.dumps(document).encode()
        head = (
            f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
        with suppress(h11.LocalProtocolError):
            self.conn.send_failed()


def patient(headers_within_s: float) -> type[Protocol]:
    """One that waits for so long for a head."""
    named: dict[str, Any] = {"headers_within_s": headers_within_s}
    return type("Protocol", (Protocol,), named)
