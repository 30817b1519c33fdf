"""What makes a store slow: a relay that delays what it passes on, and a file that others have locked."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from pathlib import Path
from typing import cast

import apsw

LOOPBACK = "127.0.0.1"
_GAP_S = 0.1
_END_S = 5.0

Span = tuple[float, float]


class SlowRelay:
    """Passes connections on to a server, each direction in order; while it is slow, answers take so many seconds."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        self._upstream = upstream
        self._each_way_s: Span | None = None
        self._loop = asyncio.new_event_loop()
        self._pipes: set[_Pipe] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_END_S)

    async def _listen(self) -> int:
        self._server = await self._loop.create_server(lambda: _Client(self), LOOPBACK, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def slow_down(self, answers_s: Span) -> None:
        """Half of it on the way there, and half on the way back."""
        self._each_way_s = (answers_s[0] / 2, answers_s[1] / 2)

    def speed_up(self) -> None:
        """What is on its way arrives now."""
        self._each_way_s = None
        self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        for pipe in list(self._pipes):
            pipe.flush()

    @property
    def delay_s(self) -> float:
        return 0.0 if self._each_way_s is None else random.uniform(*self._each_way_s)

    def begin(self, client: asyncio.Transport) -> _Pipe:
        """Return where what this client says goes."""
        there, back = _Pipe(self), _Pipe(self)
        self._pipes |= {there, back}
        back.open(client)
        connecting = self._loop.create_task(self._connect(there, back, client))
        there.task = connecting
        return there

    async def _connect(self, there: _Pipe, back: _Pipe, client: asyncio.Transport) -> None:
        try:
            server, _ = await self._loop.create_connection(lambda: _Side(back), *self._upstream)
        except OSError:
            client.abort()
        else:
            there.open(server)

    def drop(self, pipe: _Pipe) -> None:
        self._pipes.discard(pipe)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_S)
        self._server.close()
        for pipe in list(self._pipes):
            pipe.abort()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


class _Pipe:
    """One direction of a connection: chunks arrive in the order in which they were sent, and its end after them."""

    def __init__(self, relay: SlowRelay) -> None:
        self.task: asyncio.Task[None] | None = None
        self._relay = relay
        self._target: asyncio.Transport | None = None
        self._chunks: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def open(self, target: asyncio.Transport) -> None:
        self._target = target
        self._deliver()

    def put(self, data: bytes) -> None:
        latest = self._chunks[-1][0] if self._chunks else 0.0
        self._chunks.append((max(latest, asyncio.get_running_loop().time() + self._relay.delay_s), data))
        self._deliver()

    def flush(self) -> None:
        self._chunks = deque((0.0, data) for _, data in self._chunks)
        self._deliver()

    def end(self) -> None:
        self._ended = True
        self._deliver()

    def abort(self) -> None:
        if self._target is not None:
            self._target.abort()

    def _deliver(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._target is None:
            return
        loop = asyncio.get_running_loop()
        while self._chunks and self._chunks[0][0] <= loop.time():
            _, data = self._chunks.popleft()
            if not self._target.is_closing():
                self._target.write(data)
        if self._chunks:
            self._timer = loop.call_at(self._chunks[0][0], self._deliver)
        elif self._ended:
            self._target.close()
            self._relay.drop(self)


class _Side(asyncio.Protocol):
    """Whatever it hears goes into a pipe."""

    def __init__(self, pipe: _Pipe) -> None:
        self._pipe = pipe

    def data_received(self, data: bytes) -> None:
        self._pipe.put(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it was lost
        self._pipe.end()


class _Client(asyncio.Protocol):
    def __init__(self, relay: SlowRelay) -> None:
        self._relay = relay
        self._pipe: _Pipe | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pipe = self._relay.begin(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        assert self._pipe is not None
        self._pipe.put(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - same
        assert self._pipe is not None
        self._pipe.end()


class Locker:
    """Another program that writes to a file in long transactions, with a moment between two."""

    def __init__(self, file: Path, holds_s: Span) -> None:
        self._file = file
        self._holds_s = holds_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        connection = apsw.Connection(str(self._file))
        connection.set_busy_timeout(round(1000 * _END_S))
        try:
            while not self._ended.wait(_GAP_S):
                connection.execute("BEGIN IMMEDIATE")
                self._ended.wait(random.uniform(*self._holds_s))
                connection.execute("COMMIT")
        finally:
            connection.close()

    def end(self) -> None:
        self._ended.set()
        self._thread.join(2 * _END_S)
