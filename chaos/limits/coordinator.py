"""A limiter that keeps its promises, on one machine: one process grants every slot, in order, from an exact log.

It shows that the judge does not convict everybody. A line of JSON in: `take`, `give` or `throttled`; a `take` is
answered when its turn has come. One connection is one caller. It ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import cast

from chaos.limits.adapter import Settings
from chaos.limits.lines import AsyncLine, Line
from chaos.limits.provider import LOOPBACK

START_WITHIN_S = 0.25
TRANSIT_S = 0.05


class Coordinator:
    """All time is CLOCK_MONOTONIC, which the processes of one machine share."""

    def __init__(self, settings: Settings) -> None:
        self._in_flight: float = settings.get("in_flight") or math.inf
        units: int = settings.get("units", 1)
        self._windows = [
            (n // units, window_s + START_WITHIN_S + TRANSIT_S) for n, window_s in settings.get("windows", [])
        ]
        self._hold_s: float = START_WITHIN_S + TRANSIT_S + settings["call_timeout_s"]
        self._line: deque[Caller] = deque()
        self._held: dict[Caller, float] = {}
        self._log: deque[float] = deque(maxlen=max((n for n, _ in self._windows), default=1))
        self._cool_until = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    def take(self, caller: Caller) -> None:
        self._line.append(caller)
        self._grant()

    def give(self, caller: Caller) -> None:
        self._held.pop(caller, None)
        self._grant()

    def throttled(self, retry_after_s: float) -> None:
        self._cool_until = max(self._cool_until, time.monotonic() + retry_after_s)

    def lost(self, caller: Caller) -> None:
        """A provider may go on with the call of a caller that is gone: its slot counts until the call is over."""
        if caller in self._line:
            self._line.remove(caller)
        if caller in self._held:
            over_at = self._held[caller] + self._hold_s
            asyncio.get_running_loop().call_later(over_at - time.monotonic(), self.give, caller)

    def _grant(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        while self._line:
            now = time.monotonic()
            wait_s = self._wait_s(now)
            if wait_s > 0:
                if wait_s < math.inf:
                    self._timer = asyncio.get_running_loop().call_later(wait_s, self._grant)
                return
            caller = self._line.popleft()
            self._held[caller] = now
            self._log.append(now)
            caller.grant(now)

    def _wait_s(self, now: float) -> float:
        if now < self._cool_until:
            return self._cool_until - now
        if len(self._held) >= self._in_flight:
            return math.inf
        waits = [0.0]
        since_s = now - self._cool_until
        if since_s < 30:
            fresh = sum(granted_at >= self._cool_until for granted_at in self._held.values())
            if fresh >= 2 ** int(since_s):
                waits.append(int(since_s) + 1 - since_s)
        for n, window_s in self._windows:
            if len(self._log) >= n:
                waits.append(self._log[-n] + window_s - now)
        return max(waits)


class Caller(asyncio.Protocol):
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._transport: asyncio.Transport | None = None
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            match message["do"]:
                case "take":
                    self._coordinator.take(self)
                case "give":
                    self._coordinator.give(self)
                case _:
                    self._coordinator.throttled(message["retry_after_s"])

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it was lost
        self._coordinator.lost(self)

    def grant(self, at: float) -> None:
        if self._transport is not None:
            self._transport.write(json.dumps({"granted_at": at}).encode() + b"\n")


class Slot:
    def __init__(self, line: Line) -> None:
        self._line = line
        self._granted_at = -math.inf

    def take(self) -> None:
        self._granted_at = self._line.ask({"do": "take"})["granted_at"]

    def start(self) -> None:
        while time.monotonic() - self._granted_at > START_WITHIN_S:
            self._line.tell({"do": "give"})
            self.take()

    def throttled(self, retry_after_s: float) -> None:
        self._line.tell({"do": "throttled", "retry_after_s": retry_after_s})


class AsyncSlot:
    def __init__(self, line: AsyncLine) -> None:
        self._line = line
        self._granted_at = -math.inf

    async def take(self) -> None:
        self._granted_at = (await self._line.ask({"do": "take"}))["granted_at"]

    async def start(self) -> None:
        while time.monotonic() - self._granted_at > START_WITHIN_S:
            self._line.tell({"do": "give"})
            await self.take()

    def throttled(self, retry_after_s: float) -> None:
        self._line.tell({"do": "throttled", "retry_after_s": retry_after_s})


class Coordinated:
    """The adapter: a connection for each slot, so that the end of a process ends what it held."""

    def __init__(self, address: str, _: Settings) -> None:
        self._address = address

    @contextmanager
    def slot(self) -> Iterator[Slot]:
        with Line(self._address) as line:
            slot = Slot(line)
            slot.take()
            yield slot
            line.tell({"do": "give"})

    @asynccontextmanager
    async def aslot(self) -> AsyncIterator[AsyncSlot]:
        line = await AsyncLine.to(self._address)
        try:
            slot = AsyncSlot(line)
            await slot.take()
            yield slot
            line.tell({"do": "give"})
        finally:
            line.close()


async def serve(settings: Settings) -> None:
    coordinator = Coordinator(settings)
    server = await asyncio.get_running_loop().create_server(lambda: Caller(coordinator), LOOPBACK, 0)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
