"""A real server on a free loopback port, in a thread of the test's, and clients that ask it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx2
from fastapi import FastAPI

from forebay.app.forebay import Forebay
from forebay.app.keys import create
from forebay.server.application import create_app
from forebay.server.protocol import HEADERS_WITHIN_S
from forebay.server.serving import Server, address_of, bound
from tests.pipelines.ground import pdf

NOBODY = "a" * 26
DOCUMENT = pdf(1)
PDF = {"content-type": "application/pdf"}


class Service:
    """A running server: `client` speaks to it, `app` is what it stands on."""

    def __init__(self, app: Forebay, base: str, stop: Callable[[], object]) -> None:
        self.app = app
        self.stop = stop
        self.base = base
        self.client = httpx2.Client(base_url=base, timeout=20, trust_env=False)

    @property
    def place(self) -> tuple[str, int]:
        host, _, port = self.base.removeprefix("http://").rpartition(":")
        return host, int(port)

    def get(self, path: str, **options: Any) -> httpx2.Response:  # noqa: ANN401 - of httpx2
        return self.client.get(path, **options)

    def post(self, path: str, **options: Any) -> httpx2.Response:  # noqa: ANN401 - same
        return self.client.post(path, **options)

    def submit(self, raw: bytes = DOCUMENT, **options: Any) -> str:  # noqa: ANN401 - same
        headers = PDF | options.pop("headers", {})
        answer = self.post("/v1/jobs", content=raw, headers=headers, **options)
        assert answer.status_code == 202, answer.text
        found: str = answer.json()["id"]
        return found

    def keyed(self, *scopes: str, tenant: str | None = None) -> dict[str, str]:
        """Headers with a new key."""
        made = create(self.app, "test", scopes, tenant=tenant)
        return {"authorization": f"Bearer {made.token}"}

    def say(self, raw: bytes, *, timeout_s: float = 10, then: bytes = b"") -> bytes:
        """Bytes as they are on a connection of their own, and all that comes back until it is closed."""
        with socket.create_connection(self.place, timeout_s) as line:
            line.sendall(raw)
            if then:
                line.sendall(then)
            return received(line)


def received(line: socket.socket) -> bytes:
    found = b""
    try:
        while piece := line.recv(65536):
            found += piece
    except (TimeoutError, ConnectionResetError):
        pass
    return found


def problem(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """That it is the problem document which was expected."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert (found["status"], found["code"]) == (status, code), found
    assert found["request_id"] == answer.headers["x-request-id"]
    assert "Traceback" not in answer.text
    if "retry-after" in answer.headers:
        assert found["retry_after"] == int(answer.headers["retry-after"])
    return found


@contextmanager
def serving(
    app: Forebay,
    *,
    headers_within_s: float = HEADERS_WITHIN_S,
    max_connections: int | None = None,
    also: Callable[[FastAPI], object] = lambda _: None,
    **options: Any,  # noqa: ANN401 - of create_app
) -> Iterator[Service]:
    """The application is closed by its owner; `also` may do something to the face before it is served."""
    # A machine that is busy must not look like a store that is silent.
    options.setdefault("answer_within_s", 20.0)
    listening = bound("127.0.0.1", 0)
    face = create_app(app, **options)
    also(face)
    server = Server(face, grace_s=5, headers_within_s=headers_within_s, max_connections=max_connections)
    ready = threading.Event()
    held: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        held.append(asyncio.get_running_loop())
        running = asyncio.ensure_future(server.serve(sockets=[listening]))
        await asyncio.wait_for(server.ready.wait(), 20)
        ready.set()
        await running
        await app.aclose_documents()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert ready.wait(20)
        service = Service(app, address_of(listening), partial(held[0].call_soon_threadsafe, server.stop))
        with service.client:
            yield service
    finally:
        if not server.should_exit:
            held[0].call_soon_threadsafe(server.stop)
        thread.join(20)
        listening.close()
    assert not thread.is_alive()
