"""PgQueuer's side: its durable tables with the autovacuum settings that it recommends, asyncpg, uvloop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg  # type: ignore[import-not-found]  # only in the environment for benchmarks
import uvloop  # type: ignore[import-not-found]  # same
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found]  # same
from pgqueuer.models import Job  # type: ignore[import-not-found]  # same
from pgqueuer.qm import QueueManager  # type: ignore[import-not-found]  # same
from pgqueuer.queries import Queries  # type: ignore[import-not-found]  # same

from benchmarks.fleet.handling import Handling
from benchmarks.fleet.orders import Orders
from benchmarks.fleet.rows import Rows

_BATCH = 1000


def prepare(orders: Orders) -> None:
    uvloop.run(_prepare(orders))


async def _prepare(orders: Orders) -> None:
    connection = await asyncpg.connect(orders.address)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    await connection.close()


def fill(orders: Orders, count: int) -> float:
    return float(uvloop.run(_fill(orders, count)))


async def _fill(orders: Orders, count: int) -> float:
    connection = await asyncpg.connect(orders.address)
    queries = Queries(AsyncpgDriver(connection))
    batch, spent = orders.count("submit_batch", _BATCH), 0.0
    for start in range(0, count, batch):
        payloads: list[bytes | None] = [b"%d" % index for index in range(start, min(start + batch, count))]
        kinds, priorities = ["work"] * len(payloads), [0] * len(payloads)
        began = time.perf_counter()
        await queries.enqueue(kinds, payloads, priorities)
        spent += time.perf_counter() - began
    await connection.close()
    return spent


@contextmanager
def submitting(orders: Orders) -> Iterator[Callable[[int], object]]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        connection = runner.run(asyncpg.connect(orders.address))
        queries = Queries(AsyncpgDriver(connection))
        yield lambda index: runner.run(queries.enqueue("work", b"%d" % index))
        runner.run(connection.close())


def work(orders: Orders) -> None:
    uvloop.run(_work(orders))


async def _work(orders: Orders) -> None:
    handling = Handling(orders)
    await asyncio.gather(*(_manager(orders, handling) for _ in range(orders.count("managers", 1))))


async def _manager(orders: Orders, handling: Handling) -> None:
    """A connection of its own, as its documentation recommends for those that listen."""
    manager: Any = QueueManager(Queries(AsyncpgDriver(await asyncpg.connect(orders.address))))

    async def handle(job: Job) -> None:
        handling.note(int(job.payload))
        if handling.works:
            await handling.work()

    manager.entrypoint("work", concurrency_limit=orders.in_flight)(handle)
    await manager.run(
        batch_size=orders.count("batch", 10),
        max_concurrent_tasks=orders.count("concurrency", 0) or None,
    )


def recorded(orders: Orders) -> Rows:
    return Rows(
        orders.address,
        todo="pgqueuer",
        ended="SELECT count(*), count(DISTINCT job_id) FROM pgqueuer_log WHERE status = 'successful'",
    )
