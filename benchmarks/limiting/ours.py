"""Forebay's side: slots of one limit, in whichever store the address names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from benchmarks.limiting.gates import Agate, Bound, Contender, Gate
from forebay.limits import Limit, Limiter, Window

LIMIT = "bench"
ENVIRONMENT = "bench"
_WAIT_S = 600.0


def limiter(address: str, bound: Bound) -> Limiter:
    made = Limiter(address, environment=ENVIRONMENT)
    made.define(Limit(LIMIT, in_flight=bound.in_flight, windows=(Window(bound.n, per_s=bound.per_s),)))
    return made


@contextmanager
def slots(address: str, bound: Bound) -> Iterator[Gate]:
    with limiter(address, bound) as made:

        def gate(inside: Callable[[], object]) -> None:
            with made.slot(LIMIT, timeout_s=_WAIT_S):
                inside()

        yield gate


@asynccontextmanager
async def aslots(address: str, bound: Bound) -> AsyncIterator[Agate]:
    with limiter(address, bound) as made:

        async def gate(inside: Callable[[], Awaitable[object]]) -> None:
            async with made.slot(LIMIT, timeout_s=_WAIT_S):
                await inside()

        yield gate


THREADS = Contender("Forebay", opens=slots, is_ours=True, setting="in flight, one window, leases, fair line")
TASKS = Contender("Forebay, async", aopens=aslots, is_ours=True, setting=THREADS.setting)
EVERYBODY = (THREADS, TASKS)
