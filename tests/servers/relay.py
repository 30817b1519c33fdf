"""Passes connections on to a server until it is cut: then open ones end, and new ones are refused.

With `delay_s`, each piece of data waits that long, in either direction. With `tls`, clients speak TLS to the relay, and
the relay speaks plainly to the server.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Self


class Relay:
    def __init__(self, host: str, port: int, *, tls: ssl.SSLContext | None = None, delay_s: float = 0.0) -> None:
        self._tls = tls
        self.delay_s = delay_s
        self._upstream = (host, port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._is_cut = False
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self._tls is not None:
                try:
                    client = self._tls.wrap_socket(client, server_side=True)
                except OSError:
                    continue
            server = socket.create_connection(self._upstream)
            with self._lock:
                if self._is_cut:
                    client.close()
                    server.close()
                    return
                self._open += [client, server]
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                time.sleep(self.delay_s)
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            self._is_cut = True
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
            self._open = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.cut()
