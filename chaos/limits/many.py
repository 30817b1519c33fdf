"""Forebay's limiter with many sessions in one process: each is one to the store, as a process of its own would be."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from chaos.journal import Journal
from chaos.limits.adapter import Settings
from chaos.limits.ours import ENVIRONMENT, Atold, Ours, Told
from chaos.limits.wrapped import Shared
from forebay.errors import Busy, StoreError
from forebay.limits import Limiter, Slot
from forebay.stores.limit_address import open_limits
from forebay.stores.limit_base import LimitStore

_HURRY_S, _PATIENCE_S = 0.5, 5.0
_UNCLOSED = 0.3


class Crowd:
    """Each caller has a session of its own; they share the connections to the store."""

    def __init__(self, address: str, settings: Settings, store: LimitStore | None = None) -> None:
        self._store = Shared(store or open_limits(address, ENVIRONMENT))
        # They know the limit from the store, as they would if another program had defined it, but for one.
        self._sessions = [
            Ours(address, settings, store=self._store, defines=number == 0) for number in range(settings["sessions"])
        ]
        self._next = itertools.cycle(self._sessions)
        self._of: dict[object, Ours] = {}
        self._lock = threading.Lock()

    def _mine(self, caller: object) -> Ours:
        with self._lock:
            return self._of.setdefault(caller, next(self._next))

    @contextmanager
    def slot(self) -> Iterator[Told]:
        with self._mine(threading.current_thread()).slot() as told:
            yield told

    @asynccontextmanager
    async def aslot(self) -> AsyncIterator[Atold]:
        async with self._mine(asyncio.current_task()).aslot() as told:
            yield told


class Comers(Ours):
    """Each call is made by a session that comes for it and then leaves; many leave before it is their turn.

    Some say that they leave, others are just not there any more, as a program that nobody ended in peace.
    """

    def __init__(self, address: str, settings: Settings) -> None:
        self._shared = Shared(open_limits(address, ENVIRONMENT))
        self._came = Journal(Path(settings["came"]))
        super().__init__(address, settings, store=self._shared)

    @contextmanager
    def slot(self) -> Iterator[Told]:
        while True:
            limiter = Limiter(self._shared, environment=ENVIRONMENT)
            try:
                with self._wished(limiter) as slot:
                    self._came.note("came")
                    yield self.told(slot)
                    return
            except (Busy, StoreError) as error:
                self._note_given_up(error)
            finally:
                self._leave(limiter)

    @asynccontextmanager
    async def aslot(self) -> AsyncIterator[Atold]:
        while True:
            limiter = Limiter(self._shared, environment=ENVIRONMENT)
            try:
                async with self._wished(limiter) as slot:
                    self._came.note("came")
                    yield self.atold(slot)
                    return
            except (Busy, StoreError) as error:
                self._note_given_up(error)
            finally:
                await asyncio.to_thread(self._leave, limiter)

    def _wished(self, limiter: Limiter) -> Slot:
        key = random.choice(["", "ann", "bob"])
        patience_s = random.choice([random.uniform(0, _HURRY_S), _PATIENCE_S])
        return limiter.slot(self._name, units=self._units, timeout_s=patience_s, key=key)

    def _note_given_up(self, error: Busy | StoreError) -> None:
        """A newcomer is told at once if the store does not answer it, or is too busy to."""
        self._came.note("gave up", why=type(error).__name__)

    def _leave(self, limiter: Limiter) -> None:
        if random.random() < _UNCLOSED:
            limiter._pump.stop()  # noqa: SLF001 - as a process that is gone: no more requests, no more heartbeats
        else:
            limiter.close()
