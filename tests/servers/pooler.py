"""A pooler of connections to PostgreSQL as small as it can be: each transaction gets another server connection.

It knows no settings at the start: it refuses them, as PgBouncer does, or drops them, as PgBouncer is often told to.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from urllib.parse import urlsplit

from tests.servers.ports import LOOPBACK

_VERSION_3 = 196608
_ENCRYPTION = (80877103, 80877104)
_IDLE = b"I"


@dataclass
class Pooler:
    url: str
    drops: bool
    seen: list[bytes] = field(default_factory=list)
    """What clients have sent, message by message."""


class Wire:
    """Whole messages of the protocol, on one socket."""

    def __init__(self, ends: socket.socket) -> None:
        self._socket = ends
        self._file = ends.makefile("rb")
        self.send = ends.sendall

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _read(self, size: int) -> bytes:
        found = self._file.read(size)
        if len(found) < size:
            raise EOFError
        return found

    def message(self) -> bytes:
        head = self._read(5)
        return head + self._read(struct.unpack("!I", head[1:])[0] - 4)

    def start(self) -> dict[bytes, bytes]:
        """What a client says first, in the clear."""
        while True:
            size, version = struct.unpack("!II", self._read(8))
            said = self._read(size - 8)
            if version in _ENCRYPTION:
                self.send(b"N")
                continue
            assert version == _VERSION_3, version
            parts = said.rstrip(b"\0").split(b"\0")
            return dict(zip(parts[::2], parts[1::2], strict=True))

    def until_ready(self) -> Iterator[bytes]:
        while True:
            message = self.message()
            yield message
            if message[:1] == b"Z":
                return


@contextmanager
def pooler(url: str, *, drops: bool = False) -> Iterator[Pooler]:
    """Stand before the server at that address."""
    parts = urlsplit(url)
    with socket.create_server((LOOPBACK, 0)) as door, ExitStack() as clients:
        port = door.getsockname()[1]
        made = Pooler(parts._replace(netloc=f"{parts.username}@{LOOPBACK}:{port}").geturl(), drops)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    wire = Wire(door.accept()[0])
                    clients.callback(wire.close)
                    threading.Thread(target=_attend, args=(wire, made, (LOOPBACK, parts.port)), daemon=True).start()

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield made
        door.shutdown(socket.SHUT_RDWR)
        serving.join()


def _attend(client: Wire, made: Pooler, server: tuple[str, int]) -> None:
    with suppress(OSError, EOFError, ValueError), ExitStack() as opened:
        opened.callback(client.close)
        said = client.start()
        if said.pop(b"options", None) is not None and not made.drops:
            client.send(_refusal(b"unsupported startup parameter: options"))
            return
        backends: list[Wire] = []
        greeting: list[bytes] = []
        for _ in range(2):
            wire = Wire(socket.create_connection(server))
            opened.callback(wire.close)
            start = b"".join(name + b"\0" + value + b"\0" for name, value in said.items()) + b"\0"
            wire.send(struct.pack("!II", 8 + len(start), _VERSION_3) + start)
            greeting = [*wire.until_ready()]
            backends.append(wire)
        client.send(b"".join(greeting))
        turns = cycle(backends)
        backend = next(turns)
        while (message := client.message())[:1] != b"X":
            made.seen.append(message)
            backend.send(message)
            if message[:1] in {b"Q", b"S"}:
                for reply in backend.until_ready():
                    client.send(reply)
                if reply[5:] == _IDLE:
                    backend = next(turns)


def _refusal(text: bytes) -> bytes:
    fields = b"SFATAL\0" + b"VFATAL\0" + b"C08P01\0" + b"M" + text + b"\0\0"
    return b"E" + struct.pack("!I", 4 + len(fields)) + fields
