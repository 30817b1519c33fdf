"""How a worker and its children talk: JSON messages, each behind its length, over a socket."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, Protocol

from forebay.errors import TooLarge

_LENGTH = struct.Struct(">I")
MAX_MESSAGE = 512 * 1024 * 1024
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
_decode = json.JSONDecoder().decode

Message = dict[str, Any]


class Stream(Protocol):
    """A blocking end of the socket."""

    def recv(self, size: int, /) -> bytes: ...


def pack(message: Message) -> bytes:
    body = _encode(message).encode()
    if len(body) > MAX_MESSAGE:
        raise TooLarge(f"A message of {len(body)} bytes is too large.", remedy="Put large results into blobs.")
    return _LENGTH.pack(len(body)) + body


class Inbox:
    """Collects bytes as they arrive and hands out the messages that are complete."""

    def __init__(self, max_message: int = MAX_MESSAGE) -> None:
        self._bytes = bytearray()
        self._max_message = max_message

    def feed(self, data: bytes) -> Iterator[Message]:
        self._bytes += data
        start = 0
        while len(self._bytes) - start >= _LENGTH.size:
            size = _LENGTH.unpack_from(self._bytes, start)[0]
            if size > self._max_message:
                raise TooLarge(f"A child announced a message of {size} bytes.", remedy="Put large results into blobs.")
            end = start + _LENGTH.size + size
            if len(self._bytes) < end:
                break
            body = self._bytes[start + _LENGTH.size : end].decode()
            start = end
            yield _decode(body)
        del self._bytes[:start]


class Reader:
    """Messages one by one from a blocking socket; None when the other side is gone."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._inbox = Inbox()
        self._ready: list[Message] = []

    @property
    def waiting(self) -> bool:
        """Whether a message has been read already that nobody has taken."""
        return bool(self._ready)

    def next(self) -> Message | None:
        while not self._ready:
            data = self._stream.recv(1 << 16)
            if not data:
                return None
            self._ready = list(self._inbox.feed(data))[::-1]
        return self._ready.pop()
