"""Asks an HTTP server from several kept connections at once, by sockets alone, so that the server sets the pace."""

from __future__ import annotations

import os
import select
import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_SILENT_S = 30.0
_READ = 1 << 16


class Measured(NamedTuple):
    """`busy` is the part of one core that the client itself took."""

    per_s: float
    times_ms: list[float]
    statuses: Counter[int]
    busy: float
    bodies: list[bytes]


class _Line:
    """One connection with one request under way."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked_at = 0.0
        self._held = b""

    def send(self, request: bytes) -> None:
        self.asked_at = time.perf_counter()
        self.socket.sendall(request)

    def read(self) -> tuple[int, bytes] | None:
        """Status and body of the answer; None as long as some of it is missing."""
        more = self.socket.recv(_READ)
        if not more:
            raise EOFError
        self._held += more
        head_end = self._held.find(_END)
        if head_end < 0:
            return None
        start = self._held.index(_LENGTH) + len(_LENGTH)
        end = head_end + len(_END) + int(self._held[start : self._held.index(b"\r", start)])
        if len(self._held) < end:
            return None
        held, self._held = self._held, b""
        return int(held[9:12]), held[head_end + len(_END) : end]


def request(address: str, method: str, target: str, body: bytes = b"") -> bytes:
    """The bytes of a request."""
    head = f"{method} {target} HTTP/1.1\r\nhost: {urlsplit(address).netloc}\r\naccept: */*\r\n"
    if body:
        head += f"content-type: application/pdf\r\ncontent-length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


def ask(address: str, made: Callable[[int], bytes], *, connections: int, seconds: float, first: int = 0) -> Measured:
    """Send request after request on each connection for some seconds; `made` gives the nth one."""
    split = urlsplit(address)
    lines = [_Line((split.hostname or "", split.port or 80)) for _ in range(connections)]
    by_number = {line.socket.fileno(): line for line in lines}
    times_ms: list[float] = []
    statuses: Counter[int] = Counter()
    bodies: list[bytes] = []
    number = first
    with select.epoll() as ready:
        for line in lines:
            ready.register(line.socket, select.EPOLLIN)
        cpu, began = os.times(), time.perf_counter()
        ends_at = began + seconds
        for line in lines:
            line.send(made(number))
            number += 1
        open_count = connections
        while open_count:
            events = ready.poll(_SILENT_S)
            if not events:
                raise TimeoutError
            for descriptor, _ in events:
                line = by_number[descriptor]
                answer = line.read()
                if answer is None:
                    continue
                now = time.perf_counter()
                times_ms.append(1000 * (now - line.asked_at))
                statuses[answer[0]] += 1
                bodies.append(answer[1])
                if now < ends_at:
                    line.send(made(number))
                    number += 1
                else:
                    open_count -= 1
        took_s = time.perf_counter() - began
    used = os.times()
    for line in lines:
        line.socket.close()
    busy = (used.user + used.system - cpu.user - cpu.system) / took_s
    return Measured(len(times_ms) / took_s, times_ms, statuses, busy, bodies)
