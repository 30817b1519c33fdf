"""One parser child: a warm, shut-off process that reads untrusted bytes, asked one thing after the other."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from forebay.engine import report, wire
from forebay.engine.handover import LIFELINE_FD, PARENT, SOCKET_FD
from forebay.engine.wire import Message
from forebay.errors import TooLarge
from forebay.observe import emit
from forebay.processors.level import Level
from forebay.processors.processes import MIB, Process, environment

VERBS = "forebay.processors.pdf.verbs:VERBS"
NO_VERBS = "forebay.child.parser:NO_VERBS"
MAX_REPLY = 4 * MIB
RUBBISH = "it wrote what is not a message"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a parser child may use: CPU time for each task, the rest in all, `file_mb` for each file it writes."""

    memory_mb: int = 1024
    cpu_s: float = 20.0
    file_mb: int = 4096


class Ended(Exception):
    """The child is gone, or talks rubbish; `said` is what it said of itself."""

    def __init__(self, said: str | None = None) -> None:
        super().__init__(said)
        self.said = said


class ParserChild:
    """Who made it ends it. It may be started before its bounds are known, and is given no bytes before it has them."""

    def __init__(self, verbs: str = VERBS) -> None:
        self.level = Level("", 0)
        self._inbox = wire.Inbox(MAX_REPLY)
        self._socket, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        variables = environment() | {
            SOCKET_FD: str(theirs.fileno()),
            LIFELINE_FD: str(lifeline),
            PARENT: str(os.getpid()),
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

    async def ready(self, bounds: Bounds) -> None:
        """Until it has imported its verbs and shut itself off; what it raises instead is raised here."""
        given = wire.pack({"bounds": [bounds.memory_mb * MIB, bounds.file_mb * MIB], "files": 0})
        with suppress(ConnectionError):  # it may have ended, and said why
            await asyncio.get_running_loop().sock_sendall(self._socket, given)
        message = await self._next()
        if "raise" in message:
            raise report.unpack_error(message)
        if "ready" not in message:
            raise Ended(str(message.get("refused")))
        name, abi, missing = message["ready"]
        self.level = Level(name, abi, tuple(missing))
        emit("parser_started", pid=self.process.pid, level=str(self.level))

    async def ask(self, message: Message, files: Sequence[int]) -> Message:
        packed = wire.pack(message | {"files": len(files)})
        try:
            sent = socket.send_fds(self._socket, [packed], files) if files else 0
            await asyncio.get_running_loop().sock_sendall(self._socket, packed[sent:])
        except ConnectionError:
            raise Ended from None
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
                raise Ended(error.what) from None
            except (ValueError, RecursionError):
                raise Ended(RUBBISH) from None
            if not data:
                raise Ended
        if len(messages) > 1 or not isinstance(messages[0], dict):
            raise Ended(RUBBISH)
        return messages[0]

    def kill(self) -> None:
        self.process.kill()
        self._close()

    def end(self) -> None:
        """Blocking, for who has no loop; harmless if it has ended."""
        self.kill()
        self.process.wait()

    def _close(self) -> None:
        if self._lifeline >= 0:
            self._socket.close()
            os.close(self._lifeline)
            self._lifeline = -1
