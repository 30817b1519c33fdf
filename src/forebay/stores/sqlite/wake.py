"""Wakes idle workers in other processes of the machine: one datagram socket per listener, in a folder by the file."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from forebay.stores.base import notify

if TYPE_CHECKING:
    import asyncio

_ROOM = 60  # of about 100 bytes; the rest is for the file name
_STALE = (ConnectionRefusedError, FileNotFoundError)


class Wakeups:
    """Sends to, and listens in, the folder `<file>-wake`. A hint only: whatever fails here costs a slow poll."""

    def __init__(self, path: Path) -> None:
        self._folder = path.with_name(f"{path.name}-wake")
        self._lock = threading.Lock()
        self._ears: list[_Ear] = []
        self._sender: socket.socket | None = None

    def listen(self, wake: Callable[[], None], loop: asyncio.AbstractEventLoop | None = None) -> Callable[[], None]:
        try:
            ear = _Ear(self._folder, wake, loop)
        except OSError:
            return lambda: None
        with self._lock:
            self._ears.append(ear)

        def stop() -> None:
            with self._lock:
                self._ears = [each for each in self._ears if each is not ear]
            ear.close()

        return stop

    def send(self) -> None:
        """Wake every listener, here and elsewhere, each on a thread of its own; never blocks and never fails."""
        with contextlib.suppress(OSError):
            names = os.listdir(self._folder)  # noqa: PTH208 - after every commit that brings work, and cheaper
            if names:
                if self._sender is None:
                    self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                    self._sender.setblocking(False)  # noqa: FBT003 - its own signature
                with _short(self._folder) as folder:
                    for name in names:
                        self._send_one(self._sender, folder, name)

    def _send_one(self, sender: socket.socket, folder: str, name: str) -> None:
        try:
            sender.sendto(b"wake", f"{folder}/{name}")
        except _STALE:
            # Its process is gone without having cleaned up.
            with contextlib.suppress(OSError):
                (self._folder / name).unlink()
        except OSError:
            pass  # a full buffer holds wake-ups enough

    def leave_to_parent(self) -> None:
        """In a forked child: let go of the parent's sockets without ending them, which a shutdown would do."""
        for ear in self._ears:
            ear.let_go()
        if self._sender is not None:
            self._sender.close()

    def close(self) -> None:
        with self._lock:
            if self._sender is not None:
                self._sender.close()
                self._sender = None
            ears, self._ears = self._ears, []
        for ear in ears:
            ear.close()


class _Ear:
    """One listener's socket, read by a loop, or else by a thread of its own."""

    def __init__(self, folder: Path, wake: Callable[[], None], loop: asyncio.AbstractEventLoop | None) -> None:
        self._wake = wake
        self._loop = loop
        self._closed = False
        folder.mkdir(mode=0o700, exist_ok=True)
        self._path = folder / f"{os.getpid()}-{secrets.token_hex(4)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            with _short(folder) as short:
                self._socket.bind(f"{short}/{self._path.name}")
        except OSError:
            self._socket.close()
            raise
        if loop is None:
            threading.Thread(target=self._receive, name="forebay-wake", daemon=True).start()
        else:
            self._socket.setblocking(False)  # noqa: FBT003 - its own signature
            loop.call_soon_threadsafe(loop.add_reader, self._socket, self._readable)

    def _receive(self) -> None:
        while self._hear():
            pass

    def _readable(self) -> None:
        if not self._hear() and self._loop is not None:
            self._loop.remove_reader(self._socket)

    def _hear(self) -> bool:
        """Whether there may be more to hear."""
        try:
            message = self._socket.recv(16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if message and not self._closed:
            notify(self._wake)
        return bool(message)

    def close(self) -> None:
        self._closed = True
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
