"""A provider that works on when its client has gone, and counts by itself how many calls it works on at once."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Provider:
    """Answers each connection after `work_s`, whether or not anybody still listens."""

    def __init__(self, work_s: float) -> None:
        self._work_s = work_s
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._now = 0
        self.peak = 0
        self.calls = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address: tuple[str, int] = self._listener.getsockname()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._work, args=(client,), daemon=True).start()

    def _work(self, client: socket.socket) -> None:
        with client:
            if not client.recv(16):
                return
            with self._lock:
                self._now += 1
                self.calls += 1
                self.peak = max(self.peak, self._now)
            self._ended.wait(self._work_s)
            with self._lock:
                self._now -= 1
            with suppress(OSError):  # its client may have gone
                client.sendall(b"done")

    def call(self, timeout_s: float) -> bytes:
        """As an HTTP client does: TimeoutError when there is no answer in time."""
        with socket.create_connection(self.address, timeout=5) as client:
            client.settimeout(timeout_s)
            client.sendall(b"work")
            return client.recv(16)
