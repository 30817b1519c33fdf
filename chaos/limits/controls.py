"""Limiters that are broken in the ways that limiters usually are: a judge that does not convict them is no judge."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import redis

from chaos.limits.adapter import Settings


class Polling(ABC):
    """Asks again and again until it is let in."""

    def __init__(self, settings: Settings) -> None:
        self._in_flight: int = settings["in_flight"]
        self._poll_s: float = settings.get("poll_s", 0.01)

    @abstractmethod
    def take(self) -> str | None: ...

    @abstractmethod
    def give(self, name: str) -> None: ...

    @contextmanager
    def slot(self) -> Iterator[None]:
        while (name := self.take()) is None:
            time.sleep(self._poll_s)
        try:
            yield
        finally:
            self.give(name)

    @asynccontextmanager
    async def aslot(self) -> AsyncIterator[None]:
        while (name := self.take()) is None:  # noqa: ASYNC110 - there is nobody to wake it
            await asyncio.sleep(self._poll_s)
        try:
            yield
        finally:
            self.give(name)


class CountThenAdd(Polling):
    """A semaphore that counts in one step and adds in the next, with one expiry for all holders."""

    def __init__(self, url: str, settings: Settings) -> None:
        super().__init__(settings)
        self._redis = redis.Redis.from_url(url, decode_responses=True)
        self._key = f"{settings.get('prefix', 'chaos:')}holders"
        self._ttl_ms = round(1000 * settings.get("ttl_s", 120))
        self._between_s: float = settings.get("between_s", 0)

    def take(self) -> str | None:
        if self._redis.scard(self._key) >= self._in_flight:
            return None
        time.sleep(self._between_s)
        name = uuid.uuid4().hex
        self._redis.sadd(self._key, name)
        self._redis.pexpire(self._key, self._ttl_ms)
        return name

    def give(self, name: str) -> None:
        self._redis.srem(self._key, name)


class CalendarWindow(Polling):
    """A counter for each calendar window, read before and raised after, and a count of calls that nobody owns."""

    def __init__(self, url: str, settings: Settings) -> None:
        super().__init__(settings)
        self._redis = redis.Redis.from_url(url, decode_responses=True)
        self._prefix = settings.get("prefix", "chaos:")
        self._n, self._window_s = settings["windows"][0]

    def take(self) -> str | None:
        running, window = f"{self._prefix}running", f"{self._prefix}{int(time.time() // self._window_s)}"
        if int(self._redis.get(window) or 0) >= self._n:
            return None
        if self._redis.incr(running) > self._in_flight:
            self._redis.decr(running)
            return None
        self._redis.incr(window)
        self._redis.expire(window, 2 * int(self._window_s) + 1)
        return running

    def give(self, name: str) -> None:
        self._redis.decr(name)


class OnePerProcess(Polling):
    """A semaphore that other processes do not see."""

    def __init__(self, _: str, settings: Settings) -> None:
        super().__init__(settings)
        self._semaphore = threading.Semaphore(self._in_flight)

    def take(self) -> str | None:
        return "taken" if self._semaphore.acquire(blocking=False) else None

    def give(self, _: str) -> None:
        self._semaphore.release()
