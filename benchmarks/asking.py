"""Asks an HTTP server at little cost to the cores that both share: kept connections, answers with a length, lines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import NamedTuple
from urllib.parse import urlsplit

_LINE_BYTES = 1 << 20
_KEPT_S = 5.0  # a server ends what is idle for long, perhaps at the moment of the next request


class Answer(NamedTuple):
    status: int
    body: bytes


class _Line(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def head(self) -> tuple[int, dict[bytes, bytes]]:
        said = await self.reader.readuntil(b"\r\n\r\n")
        first, *rest = said[:-4].split(b"\r\n")
        named = (each.partition(b":") for each in rest)
        return int(first.split(b" ", 2)[1]), {name.lower(): value.strip() for name, _, value in named}


class Asker:
    """As many connections as there are requests at a time; each is used again once its answer is read."""

    def __init__(self, address: str) -> None:
        self._address = urlsplit(address)
        self._idle: list[tuple[float, _Line]] = []

    async def ask(self, method: str, target: str, body: bytes = b"") -> Answer:
        line = await self._line()
        try:
            line.writer.write(self._head(method, target, len(body)))
            # Apart from the head, as clients do.
            if body:
                line.writer.write(body)
            status, headers = await line.head()
            content = await line.reader.readexactly(int(headers[b"content-length"]))
        except BaseException:
            line.writer.close()
            raise
        if headers.get(b"connection") == b"close":
            line.writer.close()
        else:
            self._idle.append((time.monotonic() + _KEPT_S, line))
        return Answer(status, content)

    @asynccontextmanager
    async def listen(self, target: str) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
        """The status, and what follows as it comes, chunks' lengths and all."""
        line = await self._opened()
        with closing(line.writer):
            line.writer.write(self._head("GET", target, 0))
            yield (await line.head())[0], line.reader

    def close(self) -> None:
        for _, line in self._idle:
            line.writer.close()
        self._idle.clear()

    async def _line(self) -> _Line:
        while self._idle:
            until, line = self._idle.pop()
            if time.monotonic() < until and not line.reader.at_eof():
                return line
            line.writer.close()
        return await self._opened()

    async def _opened(self) -> _Line:
        return _Line(*await asyncio.open_connection(self._address.hostname, self._address.port, limit=_LINE_BYTES))

    def _head(self, method: str, target: str, length: int) -> bytes:
        return (
            f"{method} {target} HTTP/1.1\r\nhost: {self._address.netloc}\r\naccept: */*\r\n"
            f"content-length: {length}\r\n\r\n"
        ).encode()
