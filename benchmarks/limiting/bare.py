"""The least that a limiter on Redis can do: two round trips of a script that does nothing but one command."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import redis
import redis.asyncio

from benchmarks.limiting.gates import Agate, Bound, Contender, Gate

_SCRIPT = "return redis.call('INCR', KEYS[1])"
_KEY = "bench:bare"


@contextmanager
def twice(address: str, _bound: Bound) -> Iterator[Gate]:
    client: Any = redis.Redis.from_url(address)
    sha = client.script_load(_SCRIPT)

    def gate(inside: Callable[[], object]) -> None:
        client.evalsha(sha, 1, _KEY)
        inside()
        client.evalsha(sha, 1, _KEY)

    yield gate
    client.close()


@asynccontextmanager
async def atwice(address: str, _bound: Bound) -> AsyncIterator[Agate]:
    client: Any = redis.asyncio.Redis.from_url(address)
    sha = await client.script_load(_SCRIPT)

    async def gate(inside: Callable[[], Awaitable[object]]) -> None:
        await client.evalsha(sha, 1, _KEY)
        await inside()
        await client.evalsha(sha, 1, _KEY)

    yield gate
    await client.aclose()


THREADS = Contender("2 bare EVALSHA", opens=twice, setting="redis.Redis, INCR in a script, nothing limited")
TASKS = Contender("2 bare EVALSHA, async", aopens=atwice, setting="redis.asyncio.Redis, same script")
