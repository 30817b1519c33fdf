"""Bounds what a tenant may have open or send in a day, and how often a key may ask, as the settings say."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from math import ceil
from typing import TYPE_CHECKING, Final

from forebay.errors import MaybeApplied
from forebay.model.task import Status
from forebay.server.problems import Refused

if TYPE_CHECKING:
    from forebay.server.callers import Caller
    from forebay.server.service import Service
    from forebay.stores.base import Ledger

_DAY_S = 86_400
_MINUTE_S = 60.0
FRESH_S = 2.0
_SHARE: Final = 50  # a count may take this part of the time
_RETRY_AFTER_S = 30
_MOST_KEYS = 10_000
_OPEN = (Status.PENDING, Status.RUNNING)


class Allowance:
    """What one request may add to what its tenant has; what is not settled is given back."""

    def __init__(self, grow: Callable[[int], None] = lambda _: None) -> None:
        self.is_new = False
        self.is_sent = False
        self.size = 0
        self._grow = grow

    def hold(self, size: int) -> None:
        """Hold `size` bytes in all, or raise Refused."""
        self._grow(size)
        self.size = size

    def settle(self, *, is_new: bool) -> None:
        """The request is stored; one that found what was stored before has sent its bytes, and added nothing else."""
        self.is_new, self.is_sent = is_new, True


class Quotas:
    """Exact for each server: whoever is let in holds their part from then on, before anything of theirs is stored.

    What is open is counted in the ledger now and then, so that it holds what other servers took in until then; bytes
    of a day and requests of a minute are counted by each server for itself.
    """

    def __init__(self, service: Service, *, now: Callable[[], float] = time.time) -> None:
        self._service = service
        self._jobs = _Open(service, _open_jobs, "jobs", "tenant_max_jobs")
        self._tasks = _Open(service, _open_tasks, "tasks", "tenant_max_tasks")
        self._bytes = _DailyBytes(service, now)
        self._rates: dict[str, tuple[float, float]] = {}

    @asynccontextmanager
    async def job(self, caller: Caller, length: int | None) -> AsyncIterator[Allowance]:
        """Admit one job with a document of `length` bytes, if that is known, or raise Refused."""
        with self._bytes.reserved(caller.tenant, length or 0) as allowance:
            async with self._jobs.reserved(caller.tenant, allowance):
                with _in_doubt(allowance):
                    yield allowance

    @asynccontextmanager
    async def task(self, caller: Caller) -> AsyncIterator[Allowance]:
        """Admit one task, or raise Refused."""
        allowance = Allowance()
        async with self._tasks.reserved(caller.tenant, allowance):
            with _in_doubt(allowance):
                yield allowance

    def check_rate(self, key_id: str) -> None:
        """Refused if a key asks more often than it may; a minute's worth may come at once."""
        most = self._service.app.settings.key_max_requests_per_min
        if most is None:
            return
        now = time.monotonic()
        left, at = self._rates.pop(key_id, (float(most), now))
        left = min(float(most), left + (now - at) * most / _MINUTE_S)
        if len(self._rates) >= _MOST_KEYS:
            del self._rates[next(iter(self._rates))]
        self._rates[key_id] = (max(0.0, left - 1) if left >= 1 else left, now)
        if left < 1:
            raise Refused(
                429,
                "too_many_requests",
                f"This key may send {most} requests in a minute.",
                remedy="Ask again then; listen to /v1/events rather than polling.",
                headers={"retry-after": str(max(1, ceil((1 - left) * _MINUTE_S / most)))},
                closing=True,
            )


@contextmanager
def _in_doubt(allowance: Allowance) -> Iterator[None]:
    """What may be stored counts as if it were."""
    try:
        yield
    except (MaybeApplied, asyncio.CancelledError):
        allowance.settle(is_new=True)
        raise


class _DailyBytes:
    """Bytes that came today, and those that are on their way."""

    def __init__(self, service: Service, now: Callable[[], float]) -> None:
        self._service = service
        self._now = now
        self._day = 0
        self._sent: Counter[str] = Counter()
        self._on_their_way: Counter[str] = Counter()

    @contextmanager
    def reserved(self, tenant: str | None, length: int) -> Iterator[Allowance]:
        most = self._service.app.settings.tenant_max_daily_bytes
        if tenant is None or most is None:
            yield Allowance()
            return
        held = 0

        def grow(size: int) -> None:
            nonlocal held
            more = max(0, size - held)
            if self._of_today()[tenant] + self._on_their_way[tenant] + more > most:
                raise self._refusal(tenant, most)
            self._on_their_way[tenant] += more
            held += more

        allowance = Allowance(grow)
        grow(length)
        try:
            yield allowance
        finally:
            self._on_their_way[tenant] -= held
            if not self._on_their_way[tenant]:
                del self._on_their_way[tenant]
            if allowance.is_sent:
                self._of_today()[tenant] += allowance.size

    def _of_today(self) -> Counter[str]:
        day = int(self._now() // _DAY_S)
        if day != self._day:
            self._day, self._sent = day, Counter()
        return self._sent

    def _refusal(self, tenant: str, most: int) -> Refused:
        return Refused(
            429,
            "tenant_quota",
            f"The tenant {tenant} may send {most:,} bytes in a day.",
            remedy="Send it tomorrow (UTC), or have the server's setting tenant_max_daily_bytes raised.",
            headers={"retry-after": str(ceil(_DAY_S - self._now() % _DAY_S))},
            closing=True,
        )


class _Known:
    """What is known of one tenant: a count of the ledger, and what this server let in that it may not hold yet."""

    def __init__(self) -> None:
        self.counted = 0
        self.fresh_until = 0.0
        self.under_way = 0
        self.stored = 0
        self.stored_meanwhile = 0
        self.counting: asyncio.Task[None] | None = None

    @property
    def most_open(self) -> int:
        return self.counted + self.under_way + self.stored

    @property
    def idle(self) -> bool:
        return not self.under_way and self.counting is None


class _Open:
    """Admits what stays open after its request: jobs, or tasks."""

    def __init__(self, service: Service, count: Callable[[Ledger, str], int], what: str, setting: str) -> None:
        self._service = service
        self._count = count
        self._what = what
        self._setting = setting
        self._known: dict[str, _Known] = {}

    @asynccontextmanager
    async def reserved(self, tenant: str | None, allowance: Allowance) -> AsyncIterator[None]:
        most: int | None = getattr(self._service.app.settings, self._setting)
        if tenant is None or most is None:
            yield
            return
        known = await self._fresh(tenant)
        if known.most_open >= most:
            raise self._refusal(tenant, most)
        known.under_way += 1
        try:
            yield
        finally:
            known.under_way -= 1
            if allowance.is_new:
                known.stored += 1
                known.stored_meanwhile += 1

    async def _fresh(self, tenant: str) -> _Known:
        """All who ask while a count is under way wait for the same one."""
        known = self._known.get(tenant)
        if known is None:
            self._forget_one()
            known = self._known[tenant] = _Known()
        if time.monotonic() >= known.fresh_until:
            if known.counting is None:
                known.counting = asyncio.create_task(self._recount(tenant, known))
            await asyncio.shield(known.counting)
        return known

    async def _recount(self, tenant: str, known: _Known) -> None:
        """Count again. What is stored meanwhile may be in the count or not, and is added: too many, not too few."""
        known.stored_meanwhile = 0
        began = time.monotonic()
        try:
            known.counted = await self._service.ask(self._count, self._service.app.ledger, tenant)
            known.stored = known.stored_meanwhile
            is_exact = not known.stored and not known.under_way
            now = time.monotonic()
            known.fresh_until = now + max(FRESH_S if is_exact else 0.0, _SHARE * (now - began))
        finally:
            known.counting = None

    def _forget_one(self) -> None:
        if len(self._known) >= _MOST_KEYS:
            idle = next((tenant for tenant, known in self._known.items() if known.idle), None)
            self._known.pop(idle or "", None)

    def _refusal(self, tenant: str, most: int) -> Refused:
        return Refused(
            429,
            "tenant_quota",
            f"The tenant {tenant} has {most} open {self._what}, which is all that it may have.",
            remedy=f"Wait until some have ended, cancel some, or have the server's setting {self._setting} raised.",
            headers={"retry-after": str(_RETRY_AFTER_S)},
            closing=True,
        )


def _open_jobs(ledger: Ledger, tenant: str) -> int:
    return ledger.open_job_count(tenant)


def _open_tasks(ledger: Ledger, tenant: str) -> int:
    return sum(count for (_, status), count in ledger.count(tenant=tenant).items() if status in _OPEN)
