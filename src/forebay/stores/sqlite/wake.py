"""Wakes idle workers in other processes of the machine: one datagram socket per listener, in a folder by the file."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from forebay.stores.listeners import Listeners

_ROOM = 60  # of about 100 bytes; the rest is for the file name
_STALE = (ConnectionRefusedError, FileNotFoundError)


class Wakeups:
    """Sends to, and listens in, the folder `<file>-wake`. A hint only: whatever fails here costs a slow poll."""

    def __init__(self, path: Path) -> None:
        self._folder = path.with_name(f"{path.name}-wake")
        self._lock = threading.Lock()
        self._listeners = Listeners()
        self._socket: socket.socket | None = None
        self._own: Path | None = None
        self._sender: socket.socket | None = None

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        stop = self._listeners.add(wake)
        with self._lock:
            if self._socket is None:
                with contextlib.suppress(OSError):
                    self._open()
        return stop

    def _open(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        own = self._folder / f"{os.getpid()}-{secrets.token_hex(4)}"
        with _short(self._folder) as folder:
            receiver.bind(f"{folder}/{own.name}")
        self._socket, self._own = receiver, own
        threading.Thread(target=self._receive, args=(receiver,), name="forebay-wake", daemon=True).start()

    def _receive(self, receiver: socket.socket) -> None:
        while True:
            try:
                message = receiver.recv(16)
            except OSError:
                return
            if not message:
                return
            self._listeners.tell()

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
        """In a forked child: let go of the parent's socket without ending it, which a shutdown would do."""
        for each in (self._socket, self._sender):
            if each is not None:
                each.close()

    def close(self) -> None:
        with self._lock:
            if self._sender is not None:
                self._sender.close()
                self._sender = None
            if self._socket is None or self._own is None:
                return
            with contextlib.suppress(OSError):
                self._own.unlink()
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._socket = None


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
