"""Docket's side, on Redis or Valkey, with its own limit of concurrency."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

from docket import ConcurrencyLimit, Docket, Worker  # type: ignore[import-not-found]  # only for benchmarks

from benchmarks.fleet.handling import Handling
from benchmarks.fleet.orders import Orders


def prepare(orders: Orders) -> None:
    """Nothing: its keys come with its tasks."""


@asynccontextmanager
async def _docket(orders: Orders, handling: Handling | None = None) -> AsyncIterator[Any]:
    async def work(
        index: int,
        cap: ConcurrencyLimit = ConcurrencyLimit(max_concurrent=orders.in_flight or 1_000_000),  # noqa: ARG001, B008
    ) -> None:
        assert handling is not None
        handling.note(index)
        if handling.works:
            await handling.work()

    async with Docket(name="bench", url=orders.address) as docket:
        docket.register(work)
        yield docket


def fill(orders: Orders, count: int) -> float:
    return asyncio.run(_fill(orders, count))


async def _fill(orders: Orders, count: int) -> float:
    async with _docket(orders) as docket:
        began = time.perf_counter()
        for index in range(count):
            await docket.add("work")(index=index)
        return time.perf_counter() - began


@contextmanager
def submitting(orders: Orders) -> Iterator[Callable[[int], object]]:
    with asyncio.Runner() as runner:
        opened = _docket(orders)
        docket = runner.run(opened.__aenter__())
        yield lambda index: runner.run(docket.add("work")(index=index))
        runner.run(opened.__aexit__(None, None, None))


def work(orders: Orders) -> None:
    asyncio.run(_work(orders))


async def _work(orders: Orders) -> None:
    interval = timedelta(seconds=orders.number("poll_s", 0.25))
    async with (
        _docket(orders, Handling(orders)) as docket,
        Worker(
            docket,
            concurrency=orders.count("concurrency", 10),
            minimum_check_interval=interval,
            scheduling_resolution=interval,
        ) as worker,
    ):
        await worker.run_forever()


class Recorded:
    """It keeps no record that could be counted: the marks and the provider tell."""

    def is_complete(self) -> bool:
        return True

    def waiting(self) -> int:
        return 0

    def ended(self) -> tuple[int, int]:
        return 0, 0

    def close(self) -> None:
        pass


def recorded(_orders: Orders) -> Recorded:
    return Recorded()
