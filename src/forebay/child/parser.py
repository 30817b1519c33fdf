"""Reads untrusted bytes for its parent: one verb after the other, in a sandbox."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from forebay.child import guard, sandbox
from forebay.child.kernel import LINUX, die_with
from forebay.engine import report, wire
from forebay.engine.handover import LIFELINE_FD, PARENT, SOCKET_FD
from forebay.engine.wire import Message
from forebay.errors import ForebayError
from forebay.model.payload import Json
from forebay.rules import verdict
from forebay.rules.verdict import ErrorClass

Verbs = Mapping[str, Callable[[dict[str, Any], list[int]], Json]]
NO_VERBS: Verbs = {}

_MOST_FILES = 16
# Made while there is memory left.
_OUT_OF_MEMORY = wire.pack({"failed": [ErrorClass.PARSER_MEMORY, "it ran out of memory", ""]})


class Line:
    """The socket, with the descriptors that come along with a message."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._reader = wire.Reader(self)
        self._files: deque[int] = deque()

    def recv(self, size: int, /) -> bytes:
        data, files, _, _ = socket.recv_fds(self._connection, size, _MOST_FILES)
        self._files.extend(files)
        return data

    def next(self) -> tuple[Message, list[int]] | None:
        message = self._reader.next()
        return None if message is None else (message, [self._files.popleft() for _ in range(message["files"])])

    def send(self, packed: bytes) -> None:
        self._connection.sendall(packed)


def main(name: str) -> int:
    connection = socket.socket(fileno=int(os.environ.pop(SOCKET_FD)))
    lifeline = int(os.environ.pop(LIFELINE_FD))
    parent = int(os.environ.pop(PARENT))
    if LINUX:
        # No thread: what restricts this one later would not restrict another.
        guard.ask_to_die_with_parent(lifeline)
        die_with(parent, signal.SIGKILL)
    else:
        guard.die_with_parent(lifeline)
    line = Line(connection)
    try:
        verbs = _load(name)
        _silence()
        begun = line.next()
        if begun is None:
            return 0
        level = sandbox.enter(*begun[0]["bounds"])
    except ForebayError as error:
        line.send(wire.pack(report.pack_error(error)))
        return 1
    except BaseException as error:  # noqa: BLE001 - the parent shall know why
        line.send(wire.pack({"refused": f"{type(error).__name__}: {error}"}))
        return 1
    line.send(wire.pack({"ready": list(level)}))
    serve(line, verbs)
    return 0


def _load(name: str) -> Verbs:
    """What the verbs need is imported now, while files can be read; the rest only from where packages are."""
    module_name, _, attribute = name.partition(":")
    module = import_module(module_name)
    verbs: Verbs = getattr(module, attribute)
    warm = getattr(module, "warm", None)
    if warm is not None:
        warm()
    return verbs


def _silence() -> None:
    """Nothing that a document makes a library say shall reach a terminal."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def serve(line: Line, verbs: Verbs) -> None:
    while (task := line.next()) is not None:
        line.send(_answer(verbs, *task))


def _answer(verbs: Verbs, message: Message, files: list[int]) -> bytes:
    guard.bound_cpu(message["cpu_s"])
    try:
        for descriptor in files:
            with suppress(OSError):  # a pipe has no beginning
                os.lseek(descriptor, 0, os.SEEK_SET)
        return wire.pack({"answer": verbs[message["verb"]](message["arguments"], list(files))})
    except MemoryError:
        return _OUT_OF_MEMORY
    except BaseException as error:  # noqa: BLE001 - whatever a verb raises is an answer
        return wire.pack(_failure(error))
    finally:
        for descriptor in files:
            with suppress(OSError):  # the verb may have closed it
                os.close(descriptor)


def _failure(error: BaseException) -> Message:
    named = getattr(error, "error_class", None)
    if isinstance(named, str):
        return {"refused": [named, str(getattr(error, "text", error))]}
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return {"refused": [ErrorClass.DECOMPRESSION_LIMIT, "What it unpacks to is larger than a file may be."]}
    text = f"{type(error).__name__}: {error}"
    return {"failed": [verdict.classify_exception(error), text, "".join(traceback.format_exception(error))]}
