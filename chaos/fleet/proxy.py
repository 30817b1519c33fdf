"""A line to one server that can be slow, silent, cut, or lose an answer: what it did is written down when it struck."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from typing import cast

from chaos.journal import Journal

LOOPBACK = "127.0.0.1"
FAULTS = ("latency", "hang", "reset", "lost")
_OLD_S = 0.2
_PG_IDLE = b"Z\0\0\0\5I"

Ends = Callable[[bytes, bytes], bool]
"""Whether this answer, to a request that began so, says that something is done."""


def ends_transaction(_: bytes, answer: bytes) -> bool:
    """PostgreSQL is ready for the next query, outside of any transaction."""
    return _PG_IDLE in answer


def ends_script(request: bytes, _: bytes) -> bool:
    """Of Redis: a script ran."""
    return b"EVALSHA" in request[:64]


def ends_upload(request: bytes, answer: bytes) -> bool:
    """An object is stored."""
    return request.startswith(b"PUT ") and answer.startswith(b"HTTP/1.1 200")


class Proxy:
    """One server's; all connections of a line share its mood."""

    def __init__(self, server: str, upstream: tuple[str, int], ends: Ends, journal: Journal) -> None:
        self.server = server
        self.upstream = upstream
        self.ends = ends
        self.delay_s = 0.0
        self.silent = False
        self.losses = 0
        self.cuts = False
        self._journal = journal
        self._pairs: set[Pair] = set()
        self._fired: set[str] = set()
        self._accepting: asyncio.Server | None = None

    async def open(self) -> int:
        """Give the port that it listens on."""
        loop = asyncio.get_running_loop()
        self._accepting = await loop.create_server(lambda: Client(Pair(self)), LOOPBACK, 0)
        port: int = self._accepting.sockets[0].getsockname()[1]
        return port

    def begin(self, fault: str, amount: float) -> None:
        """`amount` is the seconds of latency, or how many answers are lost."""
        self._journal.note("began", server=self.server, fault=fault, amount=amount)
        match fault:
            case "latency":
                self.delay_s = amount
            case "hang":
                self.silent = True
            case "reset":
                self.cuts = True
                for pair in list(self._pairs):
                    self.reset(pair)
            case _:
                self.losses = int(amount)

    def end(self) -> None:
        """All is as it should be again; what was held back goes on."""
        self.delay_s, self.silent, self.losses, self.cuts = 0.0, False, 0, False
        self._fired.clear()
        for pair in list(self._pairs):
            pair.go_on()
        self._journal.note("calmed", server=self.server)

    @property
    def struck(self) -> bool:
        """Whether what goes on has struck anybody."""
        return bool(self._fired)

    def reset(self, pair: Pair) -> None:
        """All that are there, or whoever speaks first."""
        self.cuts = False
        self.fired("reset")
        pair.cut()

    def fired(self, fault: str) -> None:
        """Once each time that it began: bytes of somebody's were struck."""
        if fault not in self._fired:
            self._fired.add(fault)
            self._journal.note("fired", server=self.server, fault=fault)

    def add(self, pair: Pair) -> None:
        self._pairs.add(pair)

    def remove(self, pair: Pair) -> None:
        self._pairs.discard(pair)


class Pair:
    """A client and the connection to the server that stands behind it."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.client: asyncio.Transport | None = None
        self.server: asyncio.Transport | None = None
        self._since = time.monotonic()
        self._request = b""
        self._held: list[tuple[bool, bytes]] = []
        self._late = 0
        self._over = False

    async def connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: Upstream(self), *self.proxy.upstream)
        except OSError:
            self.cut()

    def joined(self) -> None:
        if not self.proxy.silent:
            self.go_on()

    def pass_on(self, data: bytes, *, up: bool) -> None:
        """From the client up to the server, or back."""
        if self.proxy.cuts:
            self.proxy.reset(self)
            return
        if up:
            self._request = self._request or data[:64]
        elif self._loses(data):
            self.proxy.losses -= 1
            self.proxy.fired("lost")
            self.cut()
            return
        else:
            self._request = b""
        if self.proxy.silent:
            self.proxy.fired("hang")
            self._held.append((up, data))
        elif self.proxy.delay_s:
            self.proxy.fired("latency")
            self._late += 1
            asyncio.get_running_loop().call_later(self.proxy.delay_s, self._arrive, up, data)
        elif self._late or self._held or self.server is None:
            self._held.append((up, data))
        else:
            self._write(data, up=up)

    def _loses(self, answer: bytes) -> bool:
        old = time.monotonic() - self._since > _OLD_S
        return self.proxy.losses > 0 and old and self.proxy.ends(self._request, answer)

    def _arrive(self, up: bool, data: bytes) -> None:  # noqa: FBT001 - a timer gives it
        self._late -= 1
        if self.proxy.silent or self.server is None:
            self._held.append((up, data))
        else:
            self._write(data, up=up)
        if not self._late and not self.proxy.silent:
            self.go_on()

    def go_on(self) -> None:
        """Deliver what was held back, unless something older is still on its way."""
        if self.server is None or self._late:
            return
        held, self._held = self._held, []
        for up, data in held:
            self._write(data, up=up)

    def _write(self, data: bytes, *, up: bool) -> None:
        to = self.server if up else self.client
        if to is not None and not to.is_closing():
            to.write(data)

    def cut(self) -> None:
        """A reset, on both sides."""
        for transport in (self.client, self.server):
            if transport is not None:
                connection = transport.get_extra_info("socket")
                if connection is not None and connection.fileno() >= 0:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                transport.abort()
        self.ended()

    def ended(self) -> None:
        """One side is gone: the other is told when it has what was meant for it."""
        if self._over:
            return
        self._over = True
        self.proxy.remove(self)
        for transport in (self.client, self.server):
            if transport is not None:
                transport.close()


class _Side(asyncio.Protocol):
    def __init__(self, pair: Pair) -> None:
        self._pair = pair

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it was lost
        self._pair.ended()


class Client(_Side):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pair.client = cast("asyncio.Transport", transport)
        self._pair.proxy.add(self._pair)
        self._connecting = asyncio.get_running_loop().create_task(self._pair.connect())

    def data_received(self, data: bytes) -> None:
        self._pair.pass_on(data, up=True)


class Upstream(_Side):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pair.server = cast("asyncio.Transport", transport)
        self._pair.joined()

    def data_received(self, data: bytes) -> None:
        self._pair.pass_on(data, up=False)
