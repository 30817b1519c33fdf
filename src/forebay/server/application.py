"""Puts the HTTP face together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import Unpack

from fastapi import FastAPI

from forebay.app.forebay import Forebay
from forebay.app.gauges import FleetGauges
from forebay.errors import ForebayError, MissingExtra, StoreError
from forebay.model.task import DEFAULT_TENANT
from forebay.observe.events import subscribe
from forebay.observe.metrics import Metrics
from forebay.server import (
    callbacks,
    dead,
    docs_page,
    health,
    jobs,
    limits,
    problems,
    records,
    results,
    slots,
    streams,
    submitting,
    tasks,
    workers,
)
from forebay.server.guarding import Guard
from forebay.server.heads import Heads
from forebay.server.listeners import Listeners
from forebay.server.service import Bounds, Service
from forebay.server.watching import Watcher

_NOUNS = (
    submitting,
    jobs,
    results,
    streams,
    tasks,
    dead,
    workers,
    limits,
    slots,
    callbacks,
    records,
    docs_page,
)
_PROBE = b"forebay serve was here\n"
_ANNOUNCE_WITHIN_S = 5.0
_ANNOUNCE_AGAIN_S = 2.0
log = logging.getLogger("forebay.server")


def create_app(
    app: Forebay,
    *,
    keyed: bool = False,
    loopback: bool = True,
    **bounds: Unpack[Bounds],
) -> FastAPI:
    """An ASGI application over the stores of `app`, which stays the caller's to close, as do its documents.

    `keyed` says that there are API keys; it finds out by itself when the first one is made. `loopback` says that
    only this machine can reach it.
    """
    metrics, gauges = _metrics(), FleetGauges(app)
    if metrics is not None:
        metrics.registry.register(gauges)
    service = Service(app, keyed=keyed, loopback=loopback, metrics=metrics, **bounds)
    watcher = Watcher(service)
    listeners = Listeners(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        stop_counting: Callable[[], None] = subscribe(metrics) if metrics is not None else (lambda: None)
        # The first put makes the folder; a store that does not answer now is found out by /readyz.
        with suppress(StoreError):
            await service.take(_touch, app)
        # Now rather than in the midst of the first request; who has no documents need not have what reads them.
        with suppress(MissingExtra):
            await service.take(lambda: app.documents.pipeline)
        announcing = asyncio.create_task(_announce_limits(service))
        await asyncio.wait([announcing], timeout=_ANNOUNCE_WITHIN_S)
        chores = (service.watch_schema(), watcher.run(), listeners.run())
        running = [announcing, *map(asyncio.create_task, chores)]
        try:
            yield
        finally:
            for each in running:
                each.cancel()
            stop_counting()
            await asyncio.to_thread(gauges.close)
            service.close()

    # Each router's own routes: FastAPI finds what is in an included router by matching all routes in it twice.
    routers = (health.router(loopback=loopback), *(each.router for each in _NOUNS))
    made = FastAPI(
        title="Forebay",
        version=version("forebay"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        routes=[route for router in routers for route in router.routes],
    )
    made.state.service = service
    made.state.watcher = watcher
    made.state.listeners = listeners
    made.openapi = partial(docs_page.description, made)  # type: ignore[method-assign]  # as FastAPI's docs have it
    problems.install(made)
    made.add_middleware(Heads)
    made.add_middleware(Guard, service=service)
    return made


async def _announce_limits(service: Service) -> None:
    """Define the limits of code, file and environment, worker or not: other programs take slots of them."""
    try:
        while await service.take(service.app.limits.announce) is None:  # noqa: ASYNC110 - a store tells no event
            await asyncio.sleep(_ANNOUNCE_AGAIN_S)
    except ForebayError as error:
        log.error("limits_not_defined", extra={"fields": {"text": str(error)}})  # noqa: TRY400 - its text says it all


def _metrics() -> Metrics | None:
    try:
        return Metrics()
    except MissingExtra:
        return None


def _touch(app: Forebay) -> None:
    app.blobs.delete(app.blobs.put(DEFAULT_TENANT, _PROBE))
