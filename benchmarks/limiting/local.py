"""The rivals that hold in one process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from aiolimiter import AsyncLimiter  # type: ignore[import-not-found]  # only in the environment for benchmarks

from benchmarks.limiting.gates import Agate, Bound, Contender, Gate


@asynccontextmanager
async def aiolimiter(_address: str, bound: Bound) -> AsyncIterator[Agate]:
    limiter = AsyncLimiter(bound.n, bound.per_s)

    async def gate(inside: Callable[[], Awaitable[object]]) -> None:
        async with limiter:
            await inside()

    yield gate


@asynccontextmanager
async def asemaphore(_address: str, bound: Bound) -> AsyncIterator[Agate]:
    semaphore = asyncio.Semaphore(bound.in_flight)

    async def gate(inside: Callable[[], Awaitable[object]]) -> None:
        async with semaphore:
            await inside()

    yield gate


@contextmanager
def semaphore(_address: str, bound: Bound) -> Iterator[Gate]:
    held = threading.Semaphore(bound.in_flight)

    def gate(inside: Callable[[], object]) -> None:
        with held:
            inside()

    yield gate


AIOLIMITER = Contender("aiolimiter", aopens=aiolimiter, setting="AsyncLimiter(n, per_s)")
ASEMAPHORE = Contender("asyncio.Semaphore", aopens=asemaphore, has_windows=False, setting="in flight only")
SEMAPHORE = Contender("threading.Semaphore", opens=semaphore, has_windows=False, setting="in flight only")
EVERYBODY = (AIOLIMITER, ASEMAPHORE, SEMAPHORE)
