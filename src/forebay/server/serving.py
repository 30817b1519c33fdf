"""Runs the HTTP face as a program does: on a socket of its own, with a worker beside it, until a signal."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Unpack

import uvicorn
from fastapi import FastAPI

from forebay.app.forebay import Forebay
from forebay.app.working import Options, awork_among_others, register_documents, report_failure
from forebay.errors import BadInput
from forebay.ids import shown
from forebay.observe import emit
from forebay.server.application import create_app
from forebay.server.file_limit import AcceptErrors, current_limit, divide
from forebay.server.protocol import HEADERS_WITHIN_S, bounded_protocol
from forebay.server.service import Service

_BACKLOG = 2048
_MAX_ACCEPTS = 64  # at once: of each that fails for want of a file, asyncio would tell by itself
_ACCEPTS_SHARE = 32  # a part of all connections, so that what was accepted is read before it has to make room
_KEEP_ALIVE_S = 15


class Server(uvicorn.Server):
    """Signals are the program's: it may have more to end than this."""

    def __init__(
        self,
        asgi: FastAPI,
        *,
        grace_s: float,
        headers_within_s: float = HEADERS_WITHIN_S,
        max_connections: int | None = None,
    ) -> None:
        most = divide(current_limit()).connections if max_connections is None else max_connections
        self._service: Service = asgi.state.service
        self._service.requests.resize(most)
        self.ready = asyncio.Event()
        super().__init__(
            uvicorn.Config(
                asgi,
                http=bounded_protocol(headers_within_s, most),
                ws="none",
                loop="asyncio",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=max(1, min(_MAX_ACCEPTS, most // _ACCEPTS_SHARE)),
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, round(grace_s)),
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_BACKLOG)
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def worker_ended(self) -> None:
        self._service.worker_drained = True

    def stop(self) -> None:
        """Accept nothing new and finish what is being read; asked again, wait for nothing."""
        if self.should_exit:
            self.force_exit = True
        self._service.stopping.set()
        self.should_exit = True


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_exposed(app: Forebay, host: str) -> bool:
    """Whether there are keys; without any, only this machine may be served."""
    keyed = bool(app.ledger.keys())
    if not keyed and not is_loopback(host):
        raise BadInput(
            f"Without API keys, anybody who can reach {shown(host)} could do anything.",
            remedy="Make one first: `forebay keys create --scope admin NAME`, or listen on 127.0.0.1.",
        )
    return keyed


def bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, number)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a host name"
        raise BadInput(f"There is no address {shown(host)}: {why}.", remedy="Correct --host.") from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        busy = error.errno == errno.EADDRINUSE
        raise BadInput(
            f"Port {port} on {host} {'is in use' if busy else f'cannot be used: {error.strerror}'}.",
            remedy="Name another one with --port, or 0 for any that is free.",
        ) from None
    made.set_inheritable(False)
    return made


def address_of(bound_to: socket.socket) -> str:
    host, port = bound_to.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(
    app: Forebay,
    listening: socket.socket,
    *,
    keyed: bool,
    loopback: bool,
    worker: Options | None,
    on_ready: Callable[[str], None],
    **more: Any,  # noqa: ANN401 - of create_app
) -> None:
    """Until SIGTERM or SIGINT; with a worker unless there is None of its options."""
    # Before the worker begins, so that it runs what documents become.
    register_documents(app)
    asgi = create_app(app, keyed=keyed, loopback=loopback, **more)
    server = Server(asgi, grace_s=app.settings.drain_grace_s)
    address = address_of(listening)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(AcceptErrors())
    serving = loop.create_task(server.serve(sockets=[listening]))
    working = loop.create_task(_work(app, server, worker)) if worker is not None else None
    if working is None:
        _stop_on_signals(loop, server)
    ready = loop.create_task(server.ready.wait())
    try:
        await asyncio.wait([serving, ready], return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if server.ready.is_set():
            emit("server_started", address=address, keyed=keyed)
            on_ready(address)
        elif working is not None:
            working.cancel()
        await serving
        if working is not None:
            await working
    finally:
        # Both read documents: whichever ends first leaves the other in the midst of its own.
        await app.aclose_documents()
    emit("server_stopped", address=address)


async def _work(app: Forebay, server: Server, options: Options) -> None:
    """A worker that cannot go on takes the server with it; one that was drained by itself does not."""
    try:
        await awork_among_others(app, on_signal=server.stop, **_unpacked(**options))
        server.worker_ended()
    except BaseException as error:
        if isinstance(error, Exception):
            report_failure(error)
        server.stop()
        raise


def _unpacked(**options: Unpack[Options]) -> Options:
    return options


def _stop_on_signals(loop: asyncio.AbstractEventLoop, server: Server) -> None:
    with suppress(NotImplementedError, ValueError, RuntimeError):  # not in a thread beside the main one
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
