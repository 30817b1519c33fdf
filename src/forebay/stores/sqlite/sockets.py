"""Carries short messages between processes of the machine: one datagram socket per listener, in a folder."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forebay.stores.listeners import notify
from forebay.supervisor import SupervisedThread

if TYPE_CHECKING:
    import asyncio

MAX_MESSAGE = 2048  # what every system takes
_ROOM = 60  # of about 100 bytes; the rest is for the file name
_STALE = (ConnectionRefusedError, FileNotFoundError)


class Mouth:
    """Sends into a folder's sockets. Never blocks and never fails: a message is a hint, and may be lost."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._closed = False
        self._socket: socket.socket | None = None

    def send(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Each to the socket of that name; those of the dead are removed."""
        with contextlib.suppress(OSError), _short(self._folder) as folder:
            sender = self._opened()
            if sender is not None:
                for name, message in messages:
                    self._send_one(sender, folder, name, message)

    def _opened(self) -> socket.socket | None:
        with self._lock:
            if self._socket is None and not self._closed:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)  # noqa: FBT003 - its own signature
            return self._socket

    def _send_one(self, sender: socket.socket, folder: str, name: str, message: bytes) -> None:
        try:
            sender.sendto(message, f"{folder}/{name}")
        except _STALE:
            # Its process is gone without having cleaned up.
            with contextlib.suppress(OSError):
                (self._folder / name).unlink()
        except OSError:
            pass  # a full buffer holds wake-ups enough

    def let_go(self) -> None:
        """In a forked child, whose lock may be one that a thread of the parent's held."""
        if self._socket is not None:
            self._socket.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._socket is not None:
                self._socket.close()
                self._socket = None


class Ear:
    """One listener's socket, read by a loop, or else by a thread of its own."""

    def __init__(
        self,
        path: Path,
        hear: Callable[[bytes], None],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._hear = hear
        self._loop = loop
        self._closed = False
        self._path = path
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            with _short(path.parent) as folder:
                self._socket.bind(f"{folder}/{path.name}")
        except OSError:
            self._socket.close()
            raise
        if loop is None:
            self._thread = SupervisedThread("forebay-wake", self._listen)
            self._thread.start()
        else:
            self._socket.setblocking(False)  # noqa: FBT003 - its own signature
            loop.call_soon_threadsafe(loop.add_reader, self._socket, self._readable)

    def _listen(self) -> None:
        while self._receive():
            pass

    def _readable(self) -> None:
        more = False
        try:
            more = self._receive()
        finally:
            if not more and self._loop is not None:
                self._loop.remove_reader(self._socket)

    def _receive(self) -> bool:
        """Whether there may be more to hear."""
        try:
            message = self._socket.recv(MAX_MESSAGE)
        except BlockingIOError:
            return True
        except OSError:
            if self._closed:
                return False
            raise
        if message and not self._closed:
            notify(lambda: self._hear(message))
        return not self._closed

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._loop is None:
            self._thread.stop()
        with contextlib.suppress(OSError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._loop is None:
            self._socket.close()
        else:
            try:
                self._loop.call_soon_threadsafe(self._leave_loop)
            except RuntimeError:  # it is closed
                self._socket.close()

    def _leave_loop(self) -> None:
        if self._loop is not None and self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
        self._socket.close()

    def let_go(self) -> None:
        """In a forked child: without ending the parent's socket, which a shutdown or its file's removal would do."""
        self._closed = True
        self._socket.close()


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A path to the folder that fits into a socket address."""
    if len(os.fsencode(folder)) <= _ROOM:
        yield str(folder)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
