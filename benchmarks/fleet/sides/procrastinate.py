"""Procrastinate's side: psycopg, its own schema, finished jobs kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector  # type: ignore[import-not-found]  # bench only

from benchmarks.fleet.handling import Handling
from benchmarks.fleet.orders import Orders
from benchmarks.fleet.rows import Rows

_BATCH = 1000


def _app(connector: Any, handling: Handling | None = None) -> tuple[App, Any]:  # noqa: ANN401 - it ships no such type
    app = App(connector=connector)

    async def handle(index: int) -> None:
        assert handling is not None
        handling.note(index)
        if handling.works:
            await handling.work()

    return app, app.task(name="work")(handle)


def prepare(orders: Orders) -> None:
    app, _ = _app(SyncPsycopgConnector(conninfo=orders.address))
    with app.open():
        app.schema_manager.apply_schema()


def fill(orders: Orders, count: int) -> float:
    app, task = _app(SyncPsycopgConnector(conninfo=orders.address))
    spent = 0.0
    with app.open():
        for start in range(0, count, _BATCH):
            batch = [{"index": index} for index in range(start, min(start + _BATCH, count))]
            began = time.perf_counter()
            task.batch_defer(*batch)
            spent += time.perf_counter() - began
    return spent


@contextmanager
def submitting(orders: Orders) -> Iterator[Callable[[int], object]]:
    app, task = _app(SyncPsycopgConnector(conninfo=orders.address))
    with app.open():
        yield lambda index: task.defer(index=index)


def work(orders: Orders) -> None:
    asyncio.run(_work(orders))


async def _work(orders: Orders) -> None:
    concurrency = orders.count("concurrency", 10)
    connector = PsycopgConnector(conninfo=orders.address, min_size=4, max_size=concurrency + 2)
    app, _ = _app(connector, Handling(orders))
    async with app.open_async():
        await app.run_worker_async(concurrency=concurrency)


def recorded(orders: Orders) -> Rows:
    return Rows(
        orders.address,
        todo="procrastinate_jobs WHERE status IN ('todo', 'doing')",
        ended="SELECT count(*), count(*) FILTER (WHERE attempts = 1) FROM procrastinate_jobs"
        " WHERE status = 'succeeded'",
    )
