"""A pool of parser children: warm, shut-off processes that read untrusted bytes for this one."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forebay.engine import report, wire
from forebay.engine.children import how_it_ended
from forebay.engine.handover import FILE_BYTES, LIFELINE_FD, MEMORY, PARENT, SOCKET_FD
from forebay.engine.signals import Permanent, Retry
from forebay.engine.wire import Message
from forebay.errors import Conflict, TooLarge
from forebay.ids import printable
from forebay.model.payload import Json
from forebay.observe import emit
from forebay.processors.level import Level
from forebay.processors.processes import MIB, Process, environment, failure, timed_out
from forebay.rules.verdict import ErrorClass

VERBS = "forebay.processors.pdf.verbs:VERBS"
NO_VERBS = "forebay.child.parser:NO_VERBS"
MAX_REPLY = 4 * MIB
_START_S = 60.0
_GRACE_S = 1.0
_MOST_TEXT = 2000
_MOST_TRACE = 20_000
# Cores are shared: a task that uses its CPU time to the full may take this many times as long.
_WALL_TIMES_CPU = 6
_WHO = "The parser"
# What a document may be refused for. The child's word for it is not trusted with more: some classes stop a lane.
_REFUSALS = {
    ErrorClass.INVALID_PDF,
    ErrorClass.CORRUPTED_CONTENT,
    ErrorClass.UNSUPPORTED_FORMAT,
    ErrorClass.ENCRYPTED,
    ErrorClass.TOO_MANY_PAGES,
    ErrorClass.PAGE_TOO_LARGE,
    ErrorClass.DECOMPRESSION_LIMIT,
    ErrorClass.REFUSED,
}
_UNAVAILABLE = ErrorClass.SERVICE_UNAVAILABLE
_PASSING = {ErrorClass.PARSER_MEMORY, _UNAVAILABLE}
_RUBBISH = "it wrote what is no message"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a parser child may use: CPU time for each task, the rest in all, `file_mb` for each file it writes."""

    memory_mb: int = 1024
    cpu_s: float = 20.0
    file_mb: int = 4096


class _Ended(Exception):
    """The child is gone, or talks rubbish; `said` is what it said of itself."""

    def __init__(self, said: str | None = None) -> None:
        super().__init__(said)
        self.said = said


class _Parser:
    """One child; who made it ends it."""

    def __init__(self, verbs: str, bounds: Bounds) -> None:
        self.level = Level("", 0)
        self._inbox = wire.Inbox(MAX_REPLY)
        self._socket, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        variables = environment() | {
            SOCKET_FD: str(theirs.fileno()),
            LIFELINE_FD: str(lifeline),
            PARENT: str(os.getpid()),
            MEMORY: str(bounds.memory_mb * MIB),
            FILE_BYTES: str(bounds.file_mb * MIB),
            # It shall find the modules that we have found, also from another folder.
            "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
        }
        try:
            self._socket.setblocking(False)  # noqa: FBT003 - its own signature
            command = [sys.executable, "-P", "-m", "forebay.child", "--parse", verbs]
            self.process = Process(command, variables, files=[theirs.fileno(), lifeline])
        except OSError:
            self._close()
            raise
        finally:
            theirs.close()
            os.close(lifeline)

    async def ready(self) -> None:
        """Until it has imported its verbs and shut itself off; what it raises instead is raised here."""
        message = await self._next()
        if "raise" in message:
            raise report.unpack_error(message)
        if "ready" not in message:
            raise _Ended(str(message.get("refused")))
        name, abi, missing = message["ready"]
        self.level = Level(name, abi, tuple(missing))
        emit("parser_started", pid=self.process.pid, level=str(self.level))

    async def ask(self, message: Message, files: Sequence[int]) -> Message:
        packed = wire.pack(message | {"files": len(files)})
        try:
            sent = socket.send_fds(self._socket, [packed], files) if files else 0
            await asyncio.get_running_loop().sock_sendall(self._socket, packed[sent:])
        except ConnectionError:
            raise _Ended from None
        return await self._next()

    async def _next(self) -> Message:
        messages: list[Message] = []
        while not messages:
            try:
                data = await asyncio.get_running_loop().sock_recv(self._socket, 1 << 16)
                messages = list(self._inbox.feed(data))
            except OSError:
                data = b""
            except TooLarge as error:
                raise _Ended(error.what) from None
            except (ValueError, RecursionError):
                raise _Ended(_RUBBISH) from None
            if not data:
                raise _Ended
        if len(messages) > 1 or not isinstance(messages[0], dict):
            raise _Ended(_RUBBISH)
        return messages[0]

    def kill(self) -> None:
        self.process.kill()
        self._close()

    def _close(self) -> None:
        if self._lifeline >= 0:
            self._socket.close()
            os.close(self._lifeline)
            self._lifeline = -1


class Parsers:
    """At most `size` children, started when they are needed, each replaced once anything was wrong with it."""

    def __init__(self, size: int, bounds: Bounds | None = None, *, verbs: str = VERBS) -> None:
        self._bounds = bounds or Bounds()
        self._verbs = verbs
        self._size = size
        self._room = asyncio.Semaphore(size)
        self._children: set[_Parser] = set()
        self._idle: list[_Parser] = []
        self._burying: set[asyncio.Task[object]] = set()
        self._closed = False

    async def call(
        self,
        verb: str,
        arguments: Mapping[str, Json],
        *,
        files: Sequence[int] = (),
        cpu_s: float | None = None,
        timeout_s: float | None = None,
    ) -> Json:
        """What the verb answers; Permanent for what it refused, Retry for a child that died or ran out of something.

        The files are read and written from their beginning, by the verb's own rules; they stay open here.
        """
        cpu_s = self._bounds.cpu_s if cpu_s is None else cpu_s
        timeout_s = cpu_s * _WALL_TIMES_CPU if timeout_s is None else timeout_s
        message = {"verb": verb, "arguments": dict(arguments), "cpu_s": cpu_s}
        async with self._room:
            child = await self._child()
            try:
                async with asyncio.timeout(timeout_s):
                    reply = await child.ask(message, files)
                answer = _answer(reply)
            except TimeoutError:
                self._end(child, verb, f"took longer than {timeout_s:g} s")
                raise timed_out(f"{_WHO} took longer than {timeout_s:g} s for {verb!r}.") from None
            except _Ended as ended:
                raise await self._failure(child, verb, ended) from None
            except Retry as error:
                self._end(child, verb, error.text)
                raise
            except Permanent:
                self._idle.append(child)
                raise
            except BaseException:
                self._end(child, verb, "canceled")
                raise
            self._idle.append(child)
            return answer

    async def level(self) -> Level:
        """How far the children are shut off; starts one to find out."""
        async with self._room:
            child = await self._child()
            self._idle.append(child)
            return child.level

    async def aclose(self) -> None:
        """Ends them all, also those that work."""
        self._closed = True
        for child in self._children:
            child.process.kill()
        # Whoever has one notices, and those that wait for one are turned away.
        for _ in range(self._size):
            await self._room.acquire()
        for child in list(self._children):
            self._bury(child)
        await asyncio.gather(*self._burying)
        for _ in range(self._size):
            self._room.release()

    async def _child(self) -> _Parser:
        if self._closed:
            raise Conflict("These parsers are closed.", remedy="Make new ones.")
        while self._idle:
            child = self._idle.pop()
            if child.process.ending() is None:
                return child
            self._bury(child)
        return await self._start()

    async def _start(self) -> _Parser:
        try:
            child = _Parser(self._verbs, self._bounds)
        except OSError as error:
            raise Retry(f"{_WHO} could not be started: {error}", error_class=_UNAVAILABLE) from error
        self._children.add(child)
        try:
            async with asyncio.timeout(_START_S):
                await child.ready()
        except (TimeoutError, _Ended) as error:
            said = error.said or "it ended" if isinstance(error, _Ended) else f"it took longer than {_START_S:g} s"
            self._bury(child)
            raise Retry(f"{_WHO} could not be started: {said}", error_class=_UNAVAILABLE) from None
        except BaseException:
            self._bury(child)
            raise
        return child

    async def _failure(self, child: _Parser, verb: str, ended: _Ended) -> Retry:
        said = ended.said
        try:
            if said is None:
                async with asyncio.timeout(_GRACE_S):
                    ending = await child.process.ended()
                emit("parser_ended", pid=child.process.pid, verb=verb, how=how_it_ended(ending.code))
                self._bury(child)
                return self._closing() or failure(_WHO, ending, self._bounds.memory_mb * MIB)
        except TimeoutError:
            said = "it closed its connection"
        except BaseException:
            self._end(child, verb, "canceled")
            raise
        self._end(child, verb, said)
        return self._closing() or Retry(f"{_WHO} crashed: {said}.", error_class=ErrorClass.PARSER_CRASHED)

    def _closing(self) -> Retry | None:
        return Retry("The parsers were closed meanwhile.", error_class=_UNAVAILABLE) if self._closed else None

    def _end(self, child: _Parser, verb: str, why: str) -> None:
        emit("parser_killed", pid=child.process.pid, verb=verb, why=why)
        self._bury(child)

    def _bury(self, child: _Parser) -> None:
        child.kill()
        self._children.discard(child)
        burying = asyncio.get_running_loop().create_task(child.process.ended())
        self._burying.add(burying)
        burying.add_done_callback(self._burying.discard)


def _answer(reply: Message) -> Json:
    match reply:
        case {"answer": answer}:
            return answer  # type: ignore[no-any-return]
        case {"refused": [str(error_class), str(text)]} if error_class in _REFUSALS:
            raise Permanent(_shown(text), error_class=error_class)
        case {"failed": [str(error_class), str(text), str(trace)]}:
            if error_class in _PASSING:
                raise Retry(f"{_WHO} failed: {_shown(text)}", error_class=error_class)
            error = Permanent(f"{_WHO} failed: {_shown(text)}", error_class=ErrorClass.BUG)
            error.add_note("\n".join(map(printable, trace[-_MOST_TRACE:].splitlines())))
            raise error
        case _:
            raise _Ended(_RUBBISH)


def _shown(text: str) -> str:
    return printable(text[:_MOST_TEXT])
