"""Serves the simulator on loopback: uvicorn reads HTTP, and tells when a client has gone."""

from __future__ import annotations

import asyncio
import signal
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from types import FrameType
from typing import Any, Final
from urllib.parse import parse_qsl

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from forebay.errors import StoreUnreachable
from forebay.simulate import reading
from forebay.simulate.calls import Calls
from forebay.simulate.control import Control
from forebay.simulate.delivery import Gone
from forebay.simulate.messages import Reply, Request, json_reply
from forebay.simulate.settings import Settings
from forebay.simulate.state import State

HOST: Final = "127.0.0.1"
_AT_ONCE: Final = struct.pack("ii", 1, 0)
_SWITCH_S: Final = 0.0005
_BACKLOG: Final = 4096
_MOST_BYTES: Final = 256 * 1024 * 1024

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class _Client:
    """One request's connection, as the calls see it."""

    def __init__(self, receive: Receive, send: Send, transport: asyncio.Transport | None) -> None:
        self._receive = receive
        self._send = send
        self._transport = transport
        self.on_last: Callable[[], None] = _nothing

    async def body(self) -> bytes:
        parts = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Gone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > _MOST_BYTES:
                raise Gone
            if not message.get("more_body"):
                return b"".join(parts)

    async def left(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def send(self, reply: Reply) -> None:
        await self.begin(reply, len(reply.body))
        await self.piece(reply.body, last=True)

    async def begin(self, reply: Reply, size: int) -> None:
        named = {"content-length": str(size)} | reply.headers if reply.status != 204 else reply.headers  # noqa: PLR2004
        headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in named.items()]
        await self._send({"type": "http.response.start", "status": reply.status, "headers": headers})

    async def piece(self, data: bytes, *, last: bool) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})
        if last:
            self.on_last()

    def reset(self) -> None:
        self.on_last()
        if self._transport is None:
            return
        line = self._transport.get_extra_info("socket")
        if line is not None:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self._transport.abort()


class Simulator:
    """The application that uvicorn calls for each request, on the connections that it knows."""

    def __init__(self, settings: Settings) -> None:
        self.state = State(settings)
        self._calls = Calls(self.state)
        self._control = Control(self.state, self._calls.adobe)
        self._transports: dict[object, asyncio.Transport] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        arrived = self.state.clock.now()
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        server = scope.get("server") or (HOST, 0)
        request = Request(
            scope["method"],
            scope["path"],
            dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)),
            headers,
            f"http://{headers.get('host') or f'{server[0]}:{server[1]}'}",
            arrived,
        )
        client = _Client(receive, send, self._transports.get(_key(scope.get("client"))))
        if not (request.path == "/simulate" or request.path.startswith("/simulate/")):
            await self._calls.answer(request, client)
        elif "origin" in headers or "sec-fetch-site" in headers:
            # A page in a browser has no business here, whatever address it uses.
            await client.send(json_reply(403, {"error": "browsers are not served"}))
        else:
            try:
                request.body = await client.body()
            except Gone:
                return
            # What only looks may take a while: it must not hold up the stamps of arrivals.
            looks = request.method == "GET"
            await client.send(
                await asyncio.to_thread(self._control.answer, request) if looks else self._control.answer(request)
            )

    def protocol(self) -> type[H11Protocol]:
        transports = self._transports

        class Known(H11Protocol):
            """Keeps its transport where a fault finds it."""

            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                transports[_key(self.client)] = transport

            def connection_lost(self, exc: Exception | None) -> None:
                transports.pop(_key(self.client), None)
                super().connection_lost(exc)

        return Known


def _nothing() -> None:
    pass


def _key(client: object) -> object:
    return tuple(client) if isinstance(client, tuple | list) else None


def bound(port: int) -> socket.socket:
    """A listening socket, before anything else is started, so that its port can be told."""
    # With its protocol named, asyncio turns Nagle's algorithm off; else an answer could wait 40 ms to be acknowledged.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        raise StoreUnreachable(
            f"Port {port} of {HOST} cannot be had: {error.strerror}.",
            remedy="Give another, or --port 0 for a free one.",
        ) from None
    listener.listen(_BACKLOG)
    return listener


def serve(simulator: Simulator, listener: socket.socket) -> None:
    """Until SIGINT or SIGTERM."""
    # The parser thread must not hold up the stamps of arrivals.
    sys.setswitchinterval(_SWITCH_S)
    reading.load()
    config = uvicorn.Config(
        simulator,
        http=simulator.protocol(),
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        timeout_keep_alive=120,
        timeout_graceful_shutdown=1,
        server_header=False,
        backlog=_BACKLOG,
    )
    # uvicorn raises the signal again when it has ended, for whoever was there before it.
    before = {each: signal.signal(each, _ignored) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _ignored(number: int, frame: FrameType | None) -> None:
    pass
