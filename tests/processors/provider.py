"""A provider on loopback that answers what it is told to, byte for byte, and somebody who calls it."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from forebay import Context, Limit, Window
from forebay.blobs import Blobs
from forebay.clock import steady
from forebay.engine.content import Content
from forebay.engine.desk import LedgerDesk
from forebay.engine.lease import Lease
from forebay.engine.slots import Calls
from forebay.limits import Limiter
from forebay.model.exchange import Usage
from forebay.processors.messages import Reply, Request
from forebay.processors.transport import Transport
from forebay.stores.address import open_ledger
from tests.unit.builders import task

LIMIT = Limit("api", in_flight=5, windows=[Window(100, per_s=60)])
Answer = Callable[["Seen"], "bytes | Awaitable[bytes | None] | None"]
REASONS = {200: "OK", 201: "Created"}


@dataclass(frozen=True)
class Seen:
    """A request as it came in."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever JSON holds
        return json.loads(self.body)


def http(status: int, body: object = b"", **headers: str) -> bytes:
    """A reply; what is no bytes goes as JSON."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "text/html" if isinstance(body, bytes) else "application/json"
    given = {"content-type": kind, "content-length": str(len(raw))} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Other')}", *(f"{name}: {given[name]}" for name in given)]
    return "\r\n".join([*lines, "", ""]).encode() + raw


class Reset(bytes):
    """Sent; the connection is reset after it."""


@dataclass
class Provider:
    """Answers with each of `answers` in turn, and with the last of them ever after; None breaks the connection."""

    answers: Sequence[bytes | Answer | None]
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    connections: int = 0
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for each in list(self._open):
            each.transport.abort()
        while self._open:  # noqa: ASYNC110 - each leaves in its own time
            await asyncio.sleep(0)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        self.connections += 1
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self._answered(reader, writer):
                    pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        raw = {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in head[1:] if line}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.seen.append(Seen(method, target, raw, body, asyncio.get_running_loop().time()))
        answer = self.answers[min(len(self.seen), len(self.answers)) - 1]
        if callable(answer):
            made = answer(self.seen[-1])
            answer = await made if isinstance(made, Awaitable) else made
        if answer is None:
            writer.transport.abort()
            return False
        writer.write(answer)
        await writer.drain()
        if isinstance(answer, Reset):
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return False
        return b"connection: close" not in answer.lower()


class Waits:
    """An attempt that has all the time in the world."""

    def __init__(self) -> None:
        self.lease = Lease(3600)
        self.lease.renewed(steady())

    def pause(self, *, ours: bool) -> None: ...

    def resume(self, *, ours: bool, got: bool) -> None: ...


@dataclass
class Caller:
    """An attempt outside of a worker, with slots of a real limiter; each context is another attempt."""

    limiter: Limiter
    transport: Transport
    usage: list[Usage] = field(default_factory=list)
    in_flight: int = 0

    def context(self) -> Context:
        calls = Calls(lambda: self.limiter, Waits(), limit="api", held=False, label="test")
        running = task()
        desk = LedgerDesk(open_ledger("memory://"), running, "worker-1")
        desk.usage = self.usage
        return Context(running, desk, Content(_no_blobs, 1), calls=lambda: calls)

    async def call(self, request: Request, **terms: Any) -> Reply:  # noqa: ANN401 - of Transport.call
        return await self.transport.call(self.context(), request, **({"limit": "api", "meter": "api"} | terms))

    def used(self, unit: str) -> int:
        (found,) = [each for each in self.limiter.usage("api").windows if each.unit == unit]
        return found.used

    @property
    def sent(self) -> int:
        return sum(int(each.amount) for each in self.usage if each.unit == "calls")


def _no_blobs() -> Blobs:
    raise AssertionError("nobody needs bytes here")


T = TypeVar("T")
Scenario = Callable[[Caller, str], Awaitable[T]]


def against(provider: Provider, scenario: Scenario[T], *, limit: Limit = LIMIT, **options: Any) -> T:  # noqa: ANN401 - of Transport
    """Run a scenario, which gets a caller and the provider's address."""

    async def main() -> T:
        transport = Transport(**options)
        with Limiter("memory://") as limiter:
            limiter.define(limit)
            async with provider, asyncio.timeout(20):
                try:
                    return await scenario(Caller(limiter, transport), provider.url)
                finally:
                    await transport.aclose()

    return asyncio.run(main())


def get(url: str, **headers: str) -> Request:
    return Request(method="GET", url=f"{url}/x", headers=headers)
