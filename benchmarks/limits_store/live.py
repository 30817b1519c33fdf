"""Many sessions that live: each calls, gives back, waits and beats, so that the store alone is what bounds them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple

from benchmarks.limits_fleet import processes
from benchmarks.limits_fleet.grounds import Ground, Reading
from benchmarks.limits_store.drivers import COUNT, Drivers
from benchmarks.limits_store.sessions import ENVIRONMENT, LIMIT, Session, sids
from forebay.errors import StoreError
from forebay.limits import Limit, Limiter
from forebay.model.limit_record import Answer, Ask, Grant
from forebay.stores.limit_address import open_limits
from forebay.stores.limit_base import LimitStore, Wake

_THREADS = 8
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class Life:
    sessions: int
    in_flight: int
    call_s: float
    warm_s: float
    seconds: float


class Counts(NamedTuple):
    calls: int
    exchanges: int
    errors: int

    def plus(self, other: Counts) -> Counts:
        return Counts(*(mine + its for mine, its in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class Lived:
    counts: Counts
    store: Reading
    drivers_cpu_s: float


def measure(ground: Ground, life: Life) -> Lived:
    with ground.place() as address:
        limit = Limit(LIMIT, in_flight=life.in_flight, call_timeout_s=life.call_s + 5)
        with Limiter(address, environment=ENVIRONMENT) as limiter:
            limiter.define(limit)
        count = life.sessions // COUNT
        with Drivers(lambda driver, line: _drive(address, sids(driver, count), life, limit, line)) as drivers:
            drivers.hear()
            drivers.tell("live")
            drivers.hear()
            watch = ground.watch()
            used_s = processes.cpu_s(drivers.pids)
            try:
                found = drivers.hear()
                used_s = processes.cpu_s(drivers.pids) - used_s
                store = watch.read()
            finally:
                watch.close()
    counts = Counts(0, 0, 0)
    for each in found:
        counts = counts.plus(each)
    return Lived(counts, store, used_s)


def _drive(address: str, names: list[str], life: Life, limit: Limit, line: Connection) -> None:
    store = open_limits(address, ENVIRONMENT)
    line.send("ready")
    line.recv()
    asyncio.run(Driver(store, life, limit.heartbeat_s).run(names, line))


class Driver:
    """What a session knows changes in the event loop alone; its exchanges are made by threads."""

    def __init__(self, store: LimitStore, life: Life, beat_s: float) -> None:
        self._store = store
        self._life = life
        self._beat_s = beat_s
        self._counts = [0, 0, 0]
        self._pool = ThreadPoolExecutor(_THREADS)

    async def run(self, names: list[str], line: Connection) -> None:
        lives = [asyncio.create_task(self._live(sid)) for sid in names]
        await asyncio.sleep(self._life.warm_s)
        before = [*self._counts]
        line.send("counts now")
        await asyncio.sleep(self._life.seconds)
        line.send(Counts(*(now - then for now, then in zip(self._counts, before, strict=True))))
        await asyncio.gather(*lives)  # until the leader ends the process

    async def _live(self, sid: str) -> None:
        session = Session(self._store, sid)
        woken, turn = asyncio.Event(), asyncio.Lock()
        self._store.listen(sid, self._wake(session, woken))
        beats = asyncio.create_task(self._beat(session, woken, turn))
        await asyncio.sleep(random.uniform(0, self._life.warm_s / 2))
        while not beats.done():
            session.joins()
            await self._exchange(session, turn)
            while not session.calls:
                woken.clear()
                again_s = session.waits[0]["ask_again_in_ms"] / 1000 if session.waits else _PAUSE_S
                try:
                    await asyncio.wait_for(woken.wait(), again_s)
                except TimeoutError:
                    await self._exchange(session, turn)
            await asyncio.sleep(self._life.call_s)
            self._counts[0] += 1
            session.ends([*session.calls])
        beats.result()

    async def _beat(self, session: Session, woken: asyncio.Event, turn: asyncio.Lock) -> None:
        await asyncio.sleep(random.uniform(0, self._beat_s))
        while True:
            async with turn:
                await self._ask(session, session.beat_ask(), self._store.renew)
            if session.calls:
                woken.set()
            await asyncio.sleep(self._beat_s)

    async def _exchange(self, session: Session, turn: asyncio.Lock) -> None:
        async with turn:
            await self._ask(session, session.ask(), self._store.exchange)

    async def _ask(self, session: Session, ask: Ask, verb: Callable[[str, Ask], Answer]) -> None:
        self._counts[1] += 1
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._pool, verb, LIMIT, ask)
        except StoreError:
            self._counts[2] += 1
            await asyncio.sleep(_PAUSE_S)
        else:
            session.takes(ask, answer)

    def _wake(self, session: Session, woken: asyncio.Event) -> Wake:
        loop = asyncio.get_running_loop()

        def hear(grants: list[Grant]) -> None:
            session.hears(grants)
            if session.calls:
                woken.set()

        def wake(limit: str, grants: list[Grant], now: int) -> None:  # noqa: ARG001 - of the contract
            loop.call_soon_threadsafe(hear, grants)

        return wake
