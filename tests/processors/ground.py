"""A pool of parsers with the tests' own verbs, and how to see what became of their processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from forebay.engine.signals import Retry
from forebay.processors.parser_child import Bounds
from forebay.processors.parsers import Parsers

T = TypeVar("T")
VERBS = "tests.processors.verbs:VERBS"
BOUNDS = Bounds(memory_mb=256, cpu_s=10, file_mb=2)


@asynccontextmanager
async def opened(size: int = 1, bounds: Bounds = BOUNDS) -> AsyncIterator[Parsers]:
    parsers = Parsers(size, bounds, verbs=VERBS)
    try:
        yield parsers
    finally:
        await parsers.aclose()


def with_parsers(scenario: Callable[[Parsers], Coroutine[Any, Any, T]], **given: Any) -> T:  # noqa: ANN401 - of `opened`
    async def main() -> T:
        async with opened(**given) as parsers:
            return await scenario(parsers)

    return asyncio.run(main())


async def failing(call: Coroutine[Any, Any, object]) -> str:
    """The class with which it may be tried again."""
    with pytest.raises(Retry) as caught:
        await call
    return caught.value.error_class


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def till(true: Callable[[], object], within_s: float = 30.0) -> None:
    async with asyncio.timeout(within_s):
        while not true():  # noqa: ASYNC110 - another process brings it about
            await asyncio.sleep(0.01)


def until(true: Callable[[], object], within_s: float = 30.0) -> None:
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.01)
