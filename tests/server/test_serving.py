"""A server and the worker beside it: whichever ends first takes nothing from the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from forebay import Context
from forebay.app.forebay import Forebay
from forebay.model.exchange import Action
from forebay.server import serving
from forebay.server.service import Service

WITHIN_S = 60


class Both:
    """`over` is set once nothing is left of the server but its worker."""

    def __init__(self, app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
        self.app = app
        self.over = asyncio.Event()
        self.ready = asyncio.Event()
        self._servers: list[serving.Server] = []
        close = Service.close
        made = serving.Server

        def closed(service: Service) -> None:
            close(service)
            self.over.set()

        def kept(*args: object, **options: object) -> serving.Server:
            self._servers.append(made(*args, **options))  # type: ignore[arg-type]  # as they are
            return self._servers[-1]

        monkeypatch.setattr(Service, "close", closed)
        monkeypatch.setattr(serving, "Server", kept)
        self.running = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        with serving.bound("127.0.0.1", 0) as listening:
            await serving.serve(
                self.app,
                listening,
                keyed=False,
                loopback=True,
                worker={"concurrency": 1, "processes": 1},
                on_ready=lambda _: self.ready.set(),
            )

    def stop_serving(self) -> None:
        self._servers[0].stop()

    async def stop_working(self) -> None:
        (session,) = await asyncio.to_thread(self.app.ledger.sessions)
        await asyncio.to_thread(self.app.ledger.drain, session.id, Action(who="test"))
        await until(lambda: not any(task.get_coro().__name__ == "_work" for task in asyncio.all_tasks()))  # type: ignore[union-attr]  # a coroutine has one


async def until(there: Callable[[], bool]) -> None:
    while not there():  # noqa: ASYNC110 - a ledger has no event
        await asyncio.sleep(0.05)


@pytest.mark.slow
def test_a_document_that_is_read_when_the_server_ends_is_read_to_its_end(
    app: Forebay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        both = Both(app, monkeypatch)
        begun = asyncio.Event()

        @app.task("read")
        async def read(_: Context) -> bool:
            parsers, transport = app.documents.parsers(), app.transport
            begun.set()
            await both.over.wait()
            await parsers.level()
            return transport is app.transport

        task_id = (await app.asubmit("read", {})).id
        await begun.wait()
        both.stop_serving()
        await until(lambda: app.get(task_id).status.terminal)
        assert (app.get(task_id).error_text, app.result(task_id)) == (None, True)
        await both.stop_working()
        await both.running
        assert app.documents._parsers is None

    asyncio.run(asyncio.wait_for(scenario(), WITHIN_S))


@pytest.mark.slow
def test_a_worker_that_is_drained_leaves_its_parsers_to_the_server(
    app: Forebay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        both = Both(app, monkeypatch)

        @app.task("nothing")
        async def nothing(_: Context) -> None: ...

        await both.ready.wait()
        await until(lambda: bool(app.ledger.sessions()))
        parsers = app.documents.parsers()
        await both.stop_working()
        await parsers.level()
        both.stop_serving()
        await both.running

    asyncio.run(asyncio.wait_for(scenario(), WITHIN_S))
