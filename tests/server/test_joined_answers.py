from __future__ import annotations

import asyncio
from typing import Any

from forebay.server.protocol import _Joining


class Transport:
    def __init__(self) -> None:
        self.seen: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.seen.append(data)

    def close(self) -> None:
        self.seen.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.seen


def joining() -> tuple[Transport, Any]:
    transport = Transport()
    return transport, _Joining(transport, asyncio.get_running_loop())  # type: ignore[arg-type]  # all that it uses


def test_head_and_body_of_one_turn_are_written_together() -> None:
    async def turn() -> None:
        transport, joined = joining()
        joined.write(b"head ")
        joined.write(b"body")
        assert transport.seen == [b"head body"]
        joined.write(b"more")
        await asyncio.sleep(0)
        assert transport.seen == [b"head body", b"more"]

    asyncio.run(turn())


def test_a_head_without_a_body_leaves_at_the_end_of_the_turn() -> None:
    async def turn() -> None:
        transport, joined = joining()
        joined.write(b"head of a stream")
        assert transport.seen == []
        await asyncio.sleep(0)
        joined.write(b"later")
        assert transport.seen == [b"head of a stream", b"later"]

    asyncio.run(turn())


def test_what_is_held_leaves_before_the_connection_closes() -> None:
    async def turn() -> None:
        transport, joined = joining()
        joined.write(b"head")
        joined.close()
        await asyncio.sleep(0)
        assert transport.seen == [b"head", "closed"]

    asyncio.run(turn())


def test_a_large_body_is_not_copied_to_join_it() -> None:
    async def turn() -> None:
        transport, joined = joining()
        body = bytes(65 * 1024)
        joined.write(b"head")
        joined.write(body)
        assert transport.seen[0] == b"head"
        assert transport.seen[1] is body

    asyncio.run(turn())
