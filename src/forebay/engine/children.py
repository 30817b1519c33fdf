"""Handler children: processes that have imported the application and run blocking tasks, one at a time."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from forebay.engine import report, strays, wire
from forebay.engine.blocking import BlockingAttempt
from forebay.engine.desk import packed, to_run
from forebay.engine.handover import CPU, LIFELINE_FD, MEMORY, PATHS, SOCKET_FD, TICKETS_FD
from forebay.engine.watch import Watch
from forebay.engine.wire import Message
from forebay.model.call_outcome import CallOutcome
from forebay.model.exchange import Usage
from forebay.model.job import Event
from forebay.observe import emit

_CHECKPOINT_S = 0.25
_TERM_S = 0.5
_POLL_S = 0.01
_ROUNDS = 20
_REAP_S = 2.0  # from the end of a process's connection to its own
_REAPED_S = 10.0  # a busy machine takes its time to end what was killed


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a handler child may use, None being no bound of ours, and what is added to its environment."""

    memory_bytes: int | None = None
    cpu_s: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class ChildEnded(Exception):
    """The process is gone; `code` is what it returned, negative for a signal; `said` is why it could not start."""

    def __init__(self, code: int | None, said: str | None = None) -> None:
        super().__init__(said or how_it_ended(code))
        self.code = code
        self.said = said


def how_it_ended(code: int | None) -> str:
    if code is None:
        return "it closed its connection"
    if code == -signal.SIGKILL:
        return "signal SIGKILL, which the system sends when memory runs out"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


class Child(asyncio.Protocol):
    """One process, with tasks that queue up at it.

    Each of them has a ticket in a pipe. The child takes it before it starts the task, and a ticket that the worker
    takes back first is a task that this child will never start. Tickets bear the number of times that some were
    taken back, so that no later one lets an earlier task pass.
    """

    def __init__(self, target: str, bounds: Bounds, *, freed: Callable[[Child], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._freed = freed
        self._mark = secrets.token_hex(8)
        self._inbox = wire.Inbox()
        self._said: str | None = None
        self._asked: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Transport | None = None
        self._killed = False
        self.queue: deque[BlockingAttempt] = deque()
        self._left: list[BlockingAttempt] = []
        self._series = 0
        self.watch = Watch(lambda: islice(self.queue, 1))
        self.spent = False
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._socket, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        self._tickets_out, self._tickets_in = os.pipe()
        os.set_blocking(self._tickets_out, False)
        environment = {
            **os.environ,
            **bounds.environment,
            strays.MARK: self._mark,
            SOCKET_FD: str(theirs.fileno()),
            LIFELINE_FD: str(lifeline),
            TICKETS_FD: str(self._tickets_out),
            PATHS: os.pathsep.join(sys.path),  # it shall find the modules that we have found
            MEMORY: str(bounds.memory_bytes or ""),
            CPU: str(bounds.cpu_s or ""),
        }
        try:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-m", "forebay.child", target],
                env=environment,
                pass_fds=[theirs.fileno(), lifeline, self._tickets_out],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            self._close_files()
            raise
        finally:
            theirs.close()
            os.close(lifeline)
        emit("child_started", pid=self.pid)

    async def connect(self) -> None:
        """Until it has imported the application, or `ChildEnded`."""
        await self._loop.create_connection(lambda: self, sock=self._socket)
        await self.ready

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self.spent and not self.gone.done()

    def give(self, attempts: Sequence[BlockingAttempt]) -> None:
        """Queue tasks here; the first of an idle child begins at once."""
        idle = not self.queue
        for attempt in attempts:
            attempt.child = self
            self.queue.append(attempt)
        os.write(self._tickets_in, bytes([self._series]) * len(attempts))
        if self._transport is not None:
            tasks = [to_run(attempt.task) for attempt in attempts]
            sure_until = min(attempt.sure_until for attempt in attempts)
            self._transport.write(wire.pack({"run": tasks, "series": self._series, "sure_until": sure_until}))
        if idle:
            self.queue[0].begin()

    def recall(self) -> list[BlockingAttempt]:
        """Those that have not started, taken back: the child will not start them."""
        back, self._left = self._left, []
        if not self.gone.done():
            back += self._take_tickets()
        for attempt in back:
            attempt.child = None
        return back

    def _take_tickets(self) -> list[BlockingAttempt]:
        try:
            count = len(os.read(self._tickets_out, 1 << 12))
        except BlockingIOError:
            return []
        self._series = (self._series + 1) % 256
        back = [self.queue.pop() for _ in range(count)][::-1]
        for attempt in back:
            attempt.started_at = None
        # Who stops one of them reports it, too.
        return [attempt for attempt in back if attempt.why is None]

    async def stop(self, attempt: BlockingAttempt, why: str) -> bool:
        """Checkpoint, SIGTERM, SIGKILL of all it started; True if the handler answered in time, and the child lives."""
        if self._transport is not None:
            self._transport.write(wire.pack({"stop": attempt.task.id}))
        for _ in range(round(_CHECKPOINT_S / _POLL_S)):
            if attempt not in self.queue or not self.alive:
                break
            await asyncio.sleep(_POLL_S)
        if attempt not in self.queue:
            return True
        count = await self.kill()
        emit("child_killed", pid=self.pid, kind=attempt.task.kind, task_id=attempt.task.id, why=why, strays=count)
        return False

    async def kill(self) -> int:
        """SIGTERM, then SIGKILL, until nothing is left of it; how many more than itself there were."""
        self._killed = True
        found = strays.family(self.pid, self._mark)
        strays.send_group(self.pid, signal.SIGTERM)
        strays.send(found, signal.SIGTERM)
        for _ in range(round(_TERM_S / _POLL_S)):
            if not self._own_pid():
                break
            await asyncio.sleep(_POLL_S)
        for _ in range(_ROUNDS):
            # Stopped first: what cannot run cannot start another one behind our back.
            strays.send(self._own_pid(), signal.SIGSTOP)
            found |= strays.family(self.pid, self._mark)
            strays.send(strays.alive(found - {self.pid}), signal.SIGKILL)
            strays.send_group(self.pid, signal.SIGKILL)
            strays.send(self._own_pid(), signal.SIGKILL)
            await asyncio.sleep(_POLL_S)
            if not self._own_pid() and not strays.alive(found - {self.pid}):
                break
        for _ in range(round(_REAPED_S / _POLL_S)):
            if not self._own_pid():
                break
            await asyncio.sleep(_POLL_S)
        if self._transport is not None:
            # What it had answered before it died is read first; then the connection ends by itself.
            await asyncio.wait([self.gone], timeout=_TERM_S)
            self._transport.abort()
            await asyncio.sleep(0)  # the transport closes its socket in the next turn
        self._end()
        return len(found - {self.pid})

    def _own_pid(self) -> set[int]:
        """Empty once the process is gone: its number may be somebody else's by then."""
        return {self.pid} if self._process.poll() is None else set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker: sockets have no other
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for message in self._inbox.feed(data):
            self._take(message)

    def _take(self, message: Message) -> None:
        if "ready" in message:
            if not self.ready.done():
                self.ready.set_result(None)
        elif "refused" in message:
            self._said = message["refused"]
        elif self.queue and message.get("of") == self.queue[0].ticket:
            self._hear(message, self.queue[0])
        # Else a thread that a handler left behind speaks of a task that has ended.

    def _hear(self, message: Message, head: BlockingAttempt) -> None:
        if "ask" in message:
            asked = self._loop.create_task(self._serve(message["n"], message["ask"], head))
            self._asked.add(asked)
            asked.add_done_callback(self._asked.discard)
        elif "progress" in message:
            head.desk.progress(*message["progress"])
        elif "used" in message:
            head.desk.used(Usage(*message["used"]))
        elif "left" in message:
            limit, outcome = message["left"]
            head.calls.leave(limit, report.unpack(outcome))
        else:
            self.spent = self.spent or bool(message.get("spent"))
            self.queue.popleft()
            if self.queue and not self.spent:
                self.queue[0].begin()
            head.answered(message)
            self._freed(self)

    async def _serve(self, number: int, ask: list[Any], head: BlockingAttempt) -> None:
        """A handler's question, one of several that its threads may have; what goes wrong goes back to the handler."""
        try:
            reply: Message = {"answer": await self._answer(head, *ask)}
        except Exception as error:  # noqa: BLE001 - whatever it is, the handler shall hear of it
            reply = report.pack_error(error)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(wire.pack(reply | {"n": number}))

    async def _answer(self, head: BlockingAttempt, verb: str, *arguments: Any) -> Any:  # noqa: ANN401, PLR0911 - JSON, one for each verb
        match verb:
            case "begin":
                return await head.may_begin()
            case "chunks":
                tasks, following = await asyncio.to_thread(head.desk.chunks, arguments[0])
                return [[packed(task) for task in tasks], following]
            case "lost":
                task_id, blob, told = arguments
                return await asyncio.to_thread(
                    head.desk.lost, task_id, blob, told and Event(name=told[0], fields=told[1])
                )
            case "slot":
                return (await head.calls.enter(*arguments)).limit
            case "start":
                return await head.calls.held(arguments[0]).astart()
            case "ended":
                limit, fields, text = arguments
                return head.calls.held(limit).ended(CallOutcome(**fields), text)
            case _:
                limit, said, *rest = arguments
                return getattr(head.calls.held(limit), said)(*rest)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it ended
        self._end_when_reaped(_REAP_S)

    def _end_when_reaped(self, left_s: float) -> None:
        """Wait until the process has ended, since only then is its exit code known; its connection is closed before."""
        if self._process.poll() is None and left_s > 0 and not self.gone.done():
            self._loop.call_later(_POLL_S, self._end_when_reaped, left_s - _POLL_S)
        else:
            self._end()

    def _end(self) -> None:
        """The process is gone, or as good as: what it ran has crashed, what waited behind it goes elsewhere."""
        if self.gone.done():
            return
        self._left = self._take_tickets()
        self.gone.set_result(None)
        self.watch.close()
        for asked in self._asked:
            asked.cancel()
        self._close_files()
        ended = ChildEnded(self._process.poll(), self._said)
        if not self.ready.done():
            self.ready.set_exception(ended)
            self.ready.exception()  # seen: nobody may be waiting for it
        if self.queue:
            head = self.queue.popleft()
            if not self._killed:
                emit("child_ended", pid=self.pid, how=str(ended))
                head.crashed(ended)
            elif head.why is None:
                # Killed for the one before it, which had just ended: not its fault.
                head.report(None)
        self._freed(self)

    def _close_files(self) -> None:
        for descriptor in (self._lifeline, self._tickets_in, self._tickets_out):
            with suppress(OSError):
                os.close(descriptor)
        if self._transport is None:
            self._socket.close()
