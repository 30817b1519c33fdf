"""A server that answers every request with the same prepared bytes, or not at all, and counts them."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Answer = Callable[[socket.socket], None]


class Script:
    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"


@contextmanager
def answering(answer: Answer) -> Iterator[Script]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        script = Script(listener)
        server = threading.Thread(target=_serve, args=(script, answer), daemon=True)
        server.start()
        try:
            yield script
        finally:
            # Closing alone does not wake a thread that waits in accept().
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            server.join(5)


def _serve(script: Script, answer: Answer) -> None:
    while True:
        try:
            client, _ = script.listener.accept()
        except OSError:
            return
        with client, suppress(OSError):
            script.requests.append(client.recv(65536).partition(b"\r\n")[0].decode())
            answer(client)


def status(code: int, error: str = "", headers: str = "") -> Answer:
    body = f"<Error><Code>{error}</Code></Error>" if error else ""
    head = f"HTTP/1.1 {code} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}\r\n"

    def answer(client: socket.socket) -> None:
        client.sendall((head + body).encode())

    return answer


def half_a_body(client: socket.socket) -> None:
    client.sendall(
        b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nETag: "x"\r\n'
        b"Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n\r\nhalf"
    )


def silence(client: socket.socket) -> None:
    while client.recv(65536):
        pass


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hang_up(client: socket.socket) -> None:
    pass
