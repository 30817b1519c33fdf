"""Drives a gate by one caller or many, as threads or tasks, for some seconds, and counts what went through."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass

from benchmarks.limiting.gates import Agate, Bound, Contender, Gate, anothing, nothing

_WARM_S = 0.1


@dataclass(frozen=True, slots=True)
class Driven:
    pairs: int
    spent_s: float
    cpu_s: float

    @property
    def rate(self) -> float:
        return self.pairs / self.spent_s

    @property
    def cpu_us(self) -> float:
        """CPU of this process for each pair."""
        return 1e6 * self.cpu_s / self.pairs if self.pairs else 0.0


def drive(
    contender: Contender,
    address: str,
    bound: Bound,
    *,
    callers: int,
    seconds: float,
    inside: Callable[[], object] = nothing,
    ainside: Callable[[], Awaitable[object]] = anothing,
    warmed: Callable[[], object] = nothing,
) -> Driven:
    """`warmed` is called when what only the first calls cost is over."""
    if contender.aopens is not None:
        return asyncio.run(_tasks(contender.aopens(address, bound), callers, seconds, ainside, warmed))
    assert contender.opens is not None
    return _threads(contender.opens(address, bound), callers, seconds, inside, warmed)


def _threads(
    opened: AbstractContextManager[Gate],
    callers: int,
    seconds: float,
    inside: Callable[[], object],
    warmed: Callable[[], object],
) -> Driven:
    with opened as gate:
        _call(gate, inside, time.monotonic() + _WARM_S)
        warmed()
        began, used = time.monotonic(), time.process_time()
        ends_at = began + seconds
        if callers == 1:
            pairs = _call(gate, inside, ends_at)
        else:
            counts: list[int] = []
            threads = [
                threading.Thread(target=lambda: counts.append(_call(gate, inside, ends_at))) for _ in range(callers)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            pairs = sum(counts)
        return Driven(pairs, time.monotonic() - began, time.process_time() - used)


def _call(gate: Gate, inside: Callable[[], object], ends_at: float) -> int:
    count = 0
    while time.monotonic() < ends_at:
        gate(inside)
        count += 1
    return count


async def _tasks(
    opened: AbstractAsyncContextManager[Agate],
    callers: int,
    seconds: float,
    inside: Callable[[], Awaitable[object]],
    warmed: Callable[[], object],
) -> Driven:
    async with opened as gate:
        await _acall(gate, inside, time.monotonic() + _WARM_S)
        warmed()
        began, used = time.monotonic(), time.process_time()
        ends_at = began + seconds
        counts = await asyncio.gather(*(_acall(gate, inside, ends_at) for _ in range(callers)))
        return Driven(sum(counts), time.monotonic() - began, time.process_time() - used)


async def _acall(gate: Agate, inside: Callable[[], Awaitable[object]], ends_at: float) -> int:
    count = 0
    while time.monotonic() < ends_at:
        await gate(inside)
        count += 1
    return count
