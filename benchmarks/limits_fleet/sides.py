"""The gates that a process of the fleet calls through: Forebay's limit, or a semaphore of the process alone."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import cast

from benchmarks.limiting.gates import Agate, Aopened, Gate, Opened
from benchmarks.limits_fleet.lock_waits import count_waits
from benchmarks.limits_fleet.plan import LIMIT, Plan
from benchmarks.limits_fleet.tally import Tally
from forebay.limits import Limiter
from forebay.model.limit_record import Answer, Ask
from forebay.observe import subscribe
from forebay.stores.limit_address import open_limits
from forebay.stores.limit_base import LimitStore

ENVIRONMENT = "bench"
_WAIT_S = 30.0
_EVENTS = {"late_start", "limit_stuck", "internal_thread_failed", "limit_degraded"}


@dataclass(frozen=True, slots=True)
class Side:
    """`opens` is called in the forked process, with its number."""

    name: str
    opens: Callable[[int, Tally], Opened] | None = None
    aopens: Callable[[int, Tally], Aopened] | None = None


def forebay(plan: Plan, address: str) -> Side:
    @contextmanager
    def opens(_number: int, tally: Tally) -> Iterator[Gate]:
        with _limiter(address, tally) as limiter:

            def gate(inside: Callable[[], object]) -> None:
                with limiter.slot(LIMIT, timeout_s=_WAIT_S) as slot:
                    slot.start()
                    inside()

            yield gate

    @asynccontextmanager
    async def aopens(_number: int, tally: Tally) -> AsyncIterator[Agate]:
        with _limiter(address, tally) as limiter:

            async def gate(inside: Callable[[], Awaitable[object]]) -> None:
                async with limiter.slot(LIMIT, timeout_s=_WAIT_S) as slot:
                    await slot.astart()
                    await inside()

            yield gate

    return Side("Forebay", aopens=aopens) if plan.tasks else Side("Forebay", opens=opens)


def local(plan: Plan) -> Side:
    """The best that anybody can do who shares nothing: each process has its part of in_flight for itself."""

    @contextmanager
    def opens(number: int, _tally: Tally) -> Iterator[Gate]:
        held = threading.Semaphore(plan.local[number])

        def gate(inside: Callable[[], object]) -> None:
            with held:
                inside()

        yield gate

    @asynccontextmanager
    async def aopens(number: int, _tally: Tally) -> AsyncIterator[Agate]:
        held = asyncio.Semaphore(plan.local[number])

        async def gate(inside: Callable[[], Awaitable[object]]) -> None:
            async with held:
                await inside()

        yield gate

    return Side("local semaphore", aopens=aopens) if plan.tasks else Side("local semaphore", opens=opens)


def _limiter(address: str, tally: Tally) -> Limiter:
    def hear(name: str, _fields: Mapping[str, object]) -> None:
        if name in _EVENTS:
            tally.count(name)

    subscribe(hear)
    if address.startswith("sqlite:"):
        count_waits(tally)
    store = Counted(open_limits(address, ENVIRONMENT), tally)
    return Limiter(cast("LimitStore", store), environment=ENVIRONMENT)


class Counted:
    """A limit store that counts its exchanges; what else it can do passes through."""

    def __init__(self, store: LimitStore, tally: Tally) -> None:
        self._store = store
        self._tally = tally

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def exchange(self, limit: str, ask: Ask) -> Answer:
        self._tally.count("re-stamps", len(ask.get("restamp_call_ids", ())))
        return self._timed("exchange", self._store.exchange, limit, ask)

    def renew(self, limit: str, ask: Ask) -> Answer:
        return self._timed("renew", self._store.renew, limit, ask)

    def give_back(self, limit: str, ask: Ask) -> Answer:
        return self._timed("give_back", self._store.give_back, limit, ask)

    def send_back(self, limit: str, ask: Ask) -> bool:
        is_sent = self._store.send_back(limit, ask)
        self._tally.count("send_back", is_sent)
        return is_sent

    def _timed(self, name: str, verb: Callable[[str, Ask], Answer], limit: str, ask: Ask) -> Answer:
        self._tally.count(name)
        began_at = time.monotonic()
        try:
            return verb(limit, ask)
        except Exception as error:
            self._tally.count(f"{name} raised {type(error).__name__}")
            raise
        finally:
            self._tally.exchanged(time.monotonic() - began_at)
