"""Accepts connections and never answers on them, as a machine does that hangs."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self


class Silent:
    """A port of its own, or one that is given; counts the connections."""

    def __init__(self, port: int = 0) -> None:
        self._listening = socket.create_server(("127.0.0.1", port))
        self._open: list[socket.socket] = []
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def count(self) -> int:
        return len(self._open)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._open.append(self._listening.accept()[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._open:
            each.close()
