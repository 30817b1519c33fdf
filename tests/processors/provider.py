"""A provider on loopback that answers what it is told to, byte for byte, and calls to it through a worker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from forebay import Context, Forebay
from forebay.app.working import awork, when_idle
from forebay.model.task import Task
from forebay.processors.transport import Transport

Answer = Callable[["Seen"], "bytes | Awaitable[bytes | None] | None"]
Handler = Callable[[Context, Transport, str], Awaitable[object]]
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


@dataclass
class Provider:
    """Answers with each of `answers` in turn, and with the last of them ever after; None breaks the connection."""

    answers: Sequence[bytes | Answer | None]
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    connections: int = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        self._open: set[asyncio.StreamWriter] = set()
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
        return b"connection: close" not in answer.lower()


def called(app: Forebay, provider: Provider, handler: Handler, *, times: int = 1, **options: Any) -> list[Task]:  # noqa: ANN401 - of app.task
    """What became of tasks that run the handler against the provider, each until it has ended."""
    transport = Transport()

    async def call(ctx: Context) -> object:
        return await handler(ctx, transport, provider.url)

    app.task("call", slot="call", limit="api", **options)(call)
    made = [app.submit("call").id for _ in range(times)]

    async def main() -> None:
        async with provider:
            try:
                await asyncio.wait_for(awork(app, when_idle(app)), 30)
            finally:
                await transport.aclose()

    asyncio.run(main())
    found = [app.get(each) for each in made]
    return [each for each in found if isinstance(each, Task)]


def app_in(folder: Path) -> Forebay:
    return Forebay(f"sqlite:///{folder}/forebay.db", blobs=f"file://{folder}/blobs")
