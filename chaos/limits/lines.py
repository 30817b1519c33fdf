"""Asks a server of this package: one line of JSON out, one line of JSON back."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0

Message = dict[str, Any]


def endpoint(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


class Line:
    """A connection that one thread uses."""

    def __init__(self, address: str) -> None:
        self._socket = socket.create_connection(endpoint(address), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def tell(self, message: Message) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def hear(self) -> Message:
        return _parsed(self._answers.readline())

    def ask(self, message: Message) -> Message:
        self.tell(message)
        return self.hear()

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncLine:
    """A connection that one task uses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, address: str) -> Self:
        return cls(*await asyncio.open_connection(*endpoint(address)))

    def tell(self, message: Message) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def hear(self) -> Message:
        async with asyncio.timeout(PATIENCE_S):
            return _parsed(await self._reader.readline())

    async def ask(self, message: Message) -> Message:
        self.tell(message)
        return await self.hear()

    def close(self) -> None:
        self._writer.close()


def _parsed(line: bytes) -> Message:
    if not line:
        raise ConnectionError("the server hung up without an answer")
    answer: Message = json.loads(line)
    return answer


@contextmanager
def serving(module: str, *arguments: str) -> Iterator[str]:
    """Run a server of this package in a process of its own; gives its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield f"127.0.0.1:{_parsed(process.stdout.readline())['port']}"
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
