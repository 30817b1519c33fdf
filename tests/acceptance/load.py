"""Clients that hand in documents until their server takes no more, and what they were told."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import httpx2

from forebay import ids
from tests.server.ground import Service, received

CLIENTS = 4
ENOUGH = 20
SEGMENT = {"pipeline": "segment"}
_LATER_S = 0.3


class Told(NamedTuple):
    """The ids of what was accepted; of uploads that the strike met half-way, whatever was answered."""

    accepted: list[str]
    half_way: list[bytes]

    @property
    def all_accepted(self) -> list[str]:
        return self.accepted + [
            json.loads(each.rpartition(b"\r\n\r\n")[2])["id"] for each in self.half_way if was_accepted(each)
        ]


def was_accepted(answer: bytes) -> bool:
    return answer.startswith(b"HTTP/1.1 202 ")


def text(name: str, size: int = 100) -> bytes:
    return f"# {name}\n\nThe river fills the basin.\n".ljust(size, "\n").encode()


def struck(service: Service, strike: Callable[[], object]) -> Told:
    """Under load from several clients, with three uploads of which the last bytes come only after it."""
    run = ids.random_id()
    accepted: list[str] = []

    def send(client: int) -> None:
        with httpx2.Client(base_url=service.base, timeout=20, trust_env=False) as own:
            number = client
            while True:
                number += CLIENTS
                try:
                    answer = own.post("/v1/jobs", content=text(f"{run} {number}"), params=SEGMENT)
                except httpx2.TransportError:
                    return
                if answer.status_code != 202:
                    return
                accepted.append(answer.json()["id"])

    threads = [threading.Thread(target=send, args=(client,)) for client in range(CLIENTS)]
    with ExitStack() as stack:
        # One small, one of which most is on the disk already, one that is to be of any length.
        halves = [
            _begun(stack, service, text(f"{run} a"), 50, chunked=False),
            _begun(stack, service, text(f"{run} b", 3_000_000), 2_500_000, chunked=False),
            _begun(stack, service, text(f"{run} c"), 50, chunked=True),
        ]
        for thread in threads:
            thread.start()
        ends_at = time.monotonic() + 20
        while len(accepted) < ENOUGH and time.monotonic() < ends_at:
            time.sleep(0.01)
        strike()
        time.sleep(_LATER_S)
        half_way = [_finished(*each) for each in halves]
    for thread in threads:
        thread.join(20)
    assert len(accepted) >= ENOUGH, "there was no load"
    return Told(accepted, half_way)


def _begun(
    stack: ExitStack, service: Service, body: bytes, first: int, *, chunked: bool
) -> tuple[socket.socket, bytes]:
    line = stack.enter_context(socket.create_connection(service.place, 20))
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    head = f"POST /v1/jobs?pipeline=segment HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n"
    begin, rest = body[:first], body[first:]
    if chunked:
        begin, rest = _chunk(begin), _chunk(rest) + _chunk(b"")
    line.sendall(head.encode() + begin)
    return line, rest


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _finished(line: socket.socket, rest: bytes) -> bytes:
    try:
        line.sendall(rest)
    except ConnectionError:
        return b""
    return received(line)
