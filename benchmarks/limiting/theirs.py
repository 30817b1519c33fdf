"""The rivals on Redis, each waiting for leave in the way that its own documentation shows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

import redis
import redis.asyncio
from limiters import AsyncSemaphore, AsyncTokenBucket, SyncTokenBucket  # type: ignore[import-not-found]  # bench only
from limits import RateLimitItemPerSecond, aio, strategies  # type: ignore[import-not-found]  # same
from limits.storage import storage_from_string  # type: ignore[import-not-found]  # same
from pyrate_limiter import Limiter, Rate, RedisBucket  # type: ignore[import-not-found, unused-ignore]  # comes with a test tool, too
from throttled import Throttled, per_duration, store  # type: ignore[import-not-found]  # same
from throttled import asyncio as athrottled_py

from benchmarks.limiting.gates import Agate, Aopened, Bound, Contender, Gate, Opened

_KEY = "bench"
_WAIT_S = 600.0
_HOLD_S = 60.0
_LEAST_S = 0.001  # it may say that it is free already


def limits(strategy: str) -> Callable[[str, Bound], Opened]:
    @contextmanager
    def opened(address: str, bound: Bound) -> Iterator[Gate]:
        item = RateLimitItemPerSecond(bound.n, bound.per_s)
        limiter: Any = getattr(strategies, strategy)(storage_from_string(address))

        def gate(inside: Callable[[], object]) -> None:
            while not limiter.hit(item, _KEY):
                time.sleep(max(_LEAST_S, limiter.get_window_stats(item, _KEY).reset_time - time.time()))
            inside()

        yield gate

    return opened


def alimits(strategy: str, implementation: str) -> Callable[[str, Bound], Aopened]:
    @asynccontextmanager
    async def opened(address: str, bound: Bound) -> AsyncIterator[Agate]:
        item = RateLimitItemPerSecond(bound.n, bound.per_s)
        storage = storage_from_string(f"async+{address}", implementation=implementation)
        limiter: Any = getattr(aio.strategies, strategy)(storage)

        async def gate(inside: Callable[[], Awaitable[object]]) -> None:
            while not await limiter.hit(item, _KEY):
                stats = await limiter.get_window_stats(item, _KEY)
                await asyncio.sleep(max(_LEAST_S, stats.reset_time - time.time()))
            await inside()

        yield gate

    return opened


@contextmanager
def pyrate(address: str, bound: Bound) -> Iterator[Gate]:
    client = redis.Redis(connection_pool=redis.ConnectionPool.from_url(address))
    with Limiter(RedisBucket.init([Rate(bound.n, 1000 * bound.per_s)], client, _KEY)) as limiter:

        def gate(inside: Callable[[], object]) -> None:
            limiter.try_acquire(_KEY)
            inside()

        yield gate


@asynccontextmanager
async def apyrate(address: str, bound: Bound) -> AsyncIterator[Agate]:
    client: Any = redis.asyncio.Redis(connection_pool=redis.asyncio.ConnectionPool.from_url(address))
    with Limiter(await RedisBucket.init([Rate(bound.n, 1000 * bound.per_s)], client, _KEY)) as limiter:

        async def gate(inside: Callable[[], Awaitable[object]]) -> None:
            await limiter.try_acquire_async(_KEY)
            await inside()

        yield gate
    await client.aclose()


def throttled(algorithm: str) -> Callable[[str, Bound], Opened]:
    @contextmanager
    def opened(address: str, bound: Bound) -> Iterator[Gate]:
        quota = per_duration(timedelta(seconds=bound.per_s), bound.n)
        with_store = store.RedisStore(server=address)
        throttle = Throttled(key=_KEY, using=algorithm, quota=quota, store=with_store, timeout=_WAIT_S)

        def gate(inside: Callable[[], object]) -> None:
            with throttle:
                inside()

        yield gate

    return opened


def athrottled(algorithm: str) -> Callable[[str, Bound], Aopened]:
    @asynccontextmanager
    async def opened(address: str, bound: Bound) -> AsyncIterator[Agate]:
        quota = per_duration(timedelta(seconds=bound.per_s), bound.n)
        with_store = athrottled_py.store.RedisStore(server=address)
        throttle = athrottled_py.Throttled(key=_KEY, using=algorithm, quota=quota, store=with_store, timeout=_WAIT_S)

        async def gate(inside: Callable[[], Awaitable[object]]) -> None:
            async with throttle:
                await inside()

        yield gate

    return opened


@contextmanager
def lock(address: str, _bound: Bound) -> Iterator[Gate]:
    client: Any = redis.Redis.from_url(address)

    def gate(inside: Callable[[], object]) -> None:
        with client.lock(_KEY, timeout=_HOLD_S):
            inside()

    yield gate
    client.close()


def _blocks(make: Callable[[str, Bound], AbstractContextManager[object]]) -> Callable[[str, Bound], Opened]:
    @contextmanager
    def opened(address: str, bound: Bound) -> Iterator[Gate]:
        limiter = make(address, bound)

        def gate(inside: Callable[[], object]) -> None:
            with limiter:
                inside()

        yield gate

    return opened


def _ablocks(make: Callable[[Any, Bound], AbstractAsyncContextManager[object]]) -> Callable[[str, Bound], Aopened]:
    @asynccontextmanager
    async def opened(address: str, bound: Bound) -> AsyncIterator[Agate]:
        client: Any = redis.asyncio.Redis.from_url(address)
        limiter = make(client, bound)

        async def gate(inside: Callable[[], Awaitable[object]]) -> None:
            async with limiter:
                await inside()

        yield gate
        await client.aclose()

    return opened


def _bucket(bound: Bound) -> dict[str, Any]:
    """A token each time that one may come, up to a window's worth."""
    every_s = bound.per_s / bound.n
    return {"name": _KEY, "capacity": bound.n, "refill_frequency": max(every_s, 0.001)} | {
        "refill_amount": max(1, round(0.001 / every_s)),
        "max_sleep": _WAIT_S,
    }


def _token_bucket(address: str, bound: Bound) -> AbstractContextManager[object]:
    made: AbstractContextManager[object] = SyncTokenBucket(connection=redis.Redis.from_url(address), **_bucket(bound))
    return made


def _atoken_bucket(client: object, bound: Bound) -> AbstractAsyncContextManager[object]:
    made: AbstractAsyncContextManager[object] = AsyncTokenBucket(connection=client, **_bucket(bound))
    return made


def _asemaphore(client: object, bound: Bound) -> AbstractAsyncContextManager[object]:
    made: AbstractAsyncContextManager[object] = AsyncSemaphore(
        connection=client, name=_KEY, capacity=bound.in_flight, max_sleep=_WAIT_S, expiry=30
    )
    return made


_MOVING, _FIXED, _COUNTER = "MovingWindowRateLimiter", "FixedWindowRateLimiter", "SlidingWindowCounterRateLimiter"
MOVING = "limits moving window"
MOVING_WINDOW = Contender(MOVING, opens=limits(_MOVING), setting="RedisStorage")
PYRATE = Contender("pyrate-limiter", opens=pyrate, setting="RedisBucket, SlidingWindowLog")
LOCK = Contender("redis-py Lock", opens=lock, has_windows=False, setting="one at a time; it asks each 100 ms")
THREADS = (
    MOVING_WINDOW,
    Contender("limits fixed window", opens=limits(_FIXED), setting="RedisStorage"),
    Contender("limits sliding counter", opens=limits(_COUNTER), setting="RedisStorage"),
    PYRATE,
    Contender("throttled-py sliding window", opens=throttled("sliding_window"), setting="RedisStore"),
    Contender("throttled-py token bucket", opens=throttled("token_bucket"), setting="RedisStore, its default"),
    Contender("redis-rate-limiters bucket", opens=_blocks(_token_bucket), setting="SyncTokenBucket"),
)
TASKS = (
    Contender(f"{MOVING}, coredis", aopens=alimits(_MOVING, "coredis"), setting="aio, its default client"),
    Contender(f"{MOVING}, redis-py", aopens=alimits(_MOVING, "redispy"), setting="aio, implementation=redispy"),
    Contender("limits fixed window, coredis", aopens=alimits(_FIXED, "coredis"), setting="aio"),
    Contender("limits sliding counter, coredis", aopens=alimits(_COUNTER, "coredis"), setting="aio"),
    Contender("pyrate-limiter, async", aopens=apyrate, setting="RedisBucket on redis.asyncio, SlidingWindowLog"),
    Contender("throttled-py sliding window, async", aopens=athrottled("sliding_window"), setting="RedisStore"),
    Contender("throttled-py token bucket, async", aopens=athrottled("token_bucket"), setting="RedisStore"),
    Contender("redis-rate-limiters bucket, async", aopens=_ablocks(_atoken_bucket), setting="AsyncTokenBucket"),
    Contender(
        "redis-rate-limiters semaphore, async",
        aopens=_ablocks(_asemaphore),
        has_windows=False,
        setting="AsyncSemaphore: in flight only",
    ),
)
EVERYBODY = (*THREADS, *TASKS)
