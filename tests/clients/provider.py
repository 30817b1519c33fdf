"""A provider on this machine that answers with a status, hangs, resets or closes the connection, or refuses it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import NamedTuple

_ANSWER = "HTTP/1.1 {status} {phrase}\r\nContent-Length: {length}\r\n{more}Connection: close\r\n\r\n"


class Provider(NamedTuple):
    """Paths: /status/429, /hang, /reset, /close. `refusing` is the address of nobody."""

    port: int
    refusing: str

    def url(self, path: str) -> str:
        return self.refusing if path == "refuse" else f"http://127.0.0.1:{self.port}/{path}"


@contextmanager
def provider() -> Iterator[Provider]:
    nobody = socket.socket()
    nobody.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
    server = socket.create_server(("127.0.0.1", 0), backlog=50)
    held: list[socket.socket] = []
    thread = threading.Thread(target=_serve, args=(server, held))
    thread.start()
    try:
        yield Provider(server.getsockname()[1], f"http://127.0.0.1:{nobody.getsockname()[1]}/")
    finally:
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        for each in (server, nobody, *held):
            each.close()


def _serve(server: socket.socket, held: list[socket.socket]) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(5)
            path = _requested(connection)
            if "/hang" in path:
                held.append(socket.socket(fileno=connection.detach()))
            elif "/reset" in path:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif "/status/" in path:
                connection.sendall(_answer(int(path.split("/status/")[1][:3])))


def _requested(connection: socket.socket) -> str:
    """Read a request with its body, and return its path."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return ""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").lower().split("\r\n")
    length = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return lines[0].split(" ")[1]


def _answer(status: int) -> bytes:
    body = '{"error": {"code": "test", "message": "no"}}' if status >= 400 else "{}"
    more = "Retry-After: 30\r\n" if status == 429 else ""
    phrase = HTTPStatus(status).phrase
    return (_ANSWER.format(status=status, phrase=phrase, length=len(body), more=more) + body).encode()
