"""Brings an answer to the client, or fails to, in the way that a fault asks for."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from functools import cache
from typing import Final, Protocol

from forebay.simulate.fault import Fault
from forebay.simulate.messages import Reply

_PIECES: Final = 20
_DRIP_S: Final = 5.0
_HANG_S: Final = 3600.0
_HTML: Final = b"<!doctype html><html><body><h1>Sign in to the network</h1></body></html>"


_ELSEWHERE: Final = "http://elsewhere.invalid/"
_BOMB_BYTES: Final = 256 * 1024 * 1024


class Gone(Exception):
    """The client went away."""


class Client(Protocol):
    async def send(self, reply: Reply) -> None: ...

    async def begin(self, reply: Reply, size: int) -> None:
        """Status and headers, and the promise of so many bytes."""

    async def piece(self, data: bytes, *, last: bool) -> None: ...

    def reset(self) -> None:
        """End the connection without the courtesy of closing it."""


async def deliver(reply: Reply, fault: Fault | None, client: Client, garbage: Callable[[int], bytes]) -> bool:
    """Whether the client got all of the answer, unharmed."""
    body = reply.body
    half = body[: max(1, len(body) // 2)]
    match fault.kind if fault is not None else "":
        case "hang":
            await asyncio.sleep(_HANG_S if fault is None or fault.s is None else fault.s)
            client.reset()
        case "drip":
            await _drip(reply, client, _DRIP_S if fault is None or fault.s is None else fault.s)
            return True
        case "truncate":
            await client.send(Reply(reply.status, half, reply.headers))
        case "cut":
            await client.begin(reply, len(body) + (not body))
            await client.piece(half, last=False)
        case "reset":
            await client.begin(reply, len(body) + (not body))
            await client.piece(half, last=False)
            client.reset()
        case "garbage":
            await client.send(Reply(reply.status, garbage(max(64, len(half))), reply.headers))
        case "html":
            await client.send(Reply(200, _HTML, {"content-type": "text/html"}))
        case "bomb":
            packed = await asyncio.to_thread(_bomb)
            await client.send(Reply(reply.status, packed, reply.headers | {"content-encoding": "gzip"}))
        case "redirect":
            await client.send(Reply(307, b"", {"location": _ELSEWHERE}))
        case _:
            await client.send(reply)
            return True
    return False


@cache
def _bomb() -> bytes:
    """A megabyte that becomes very many, and JSON as far as one looks."""
    packer = zlib.compressobj(1, wbits=31)
    block = b" " * (1024 * 1024)
    parts = [packer.compress(b"{"), *(packer.compress(block) for _ in range(_BOMB_BYTES // len(block)))]
    return b"".join([*parts, packer.compress(b"}"), packer.flush()])


async def _drip(reply: Reply, client: Client, lasts_s: float) -> None:
    size = max(1, -(-len(reply.body) // _PIECES))
    pieces = [reply.body[start : start + size] for start in range(0, len(reply.body), size)] or [b""]
    await client.begin(reply, len(reply.body))
    for number, piece in enumerate(pieces, 1):
        await asyncio.sleep(lasts_s / len(pieces))
        await client.piece(piece, last=number == len(pieces))
