"""Bounds what a tenant may have open or send in a day, and how often a key may ask, as the settings say."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Final

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


class Quotas:
    """What is open is counted in the ledger; bytes of a day and requests of a minute by each server for itself."""

    def __init__(self, service: Service, *, now: Callable[[], float] = time.time) -> None:
        self._service = service
        self._now = now
        self._jobs = _Counts(service, _open_jobs)
        self._tasks = _Counts(service, _open_tasks)
        self._day = 0
        self._bytes: dict[str, int] = {}
        self._rates: dict[str, tuple[float, float]] = {}

    async def admit_job(self, caller: Caller, length: int | None) -> None:
        """Refused if another job, or its document of an announced length, would be more than its tenant may have."""
        if caller.tenant is None:
            return
        settings = self._service.app.settings
        await self._admit(caller.tenant, self._jobs, settings.tenant_max_jobs, "jobs", "tenant_max_jobs")
        self.check_bytes(caller, length or 0)

    async def admit_task(self, caller: Caller) -> None:
        if caller.tenant is not None:
            most = self._service.app.settings.tenant_max_tasks
            await self._admit(caller.tenant, self._tasks, most, "tasks", "tenant_max_tasks")

    async def _admit(self, tenant: str, counts: _Counts, most: int | None, what: str, setting: str) -> None:
        if most is not None and await counts.open(tenant) >= most:
            raise Refused(
                429,
                "tenant_quota",
                f"The tenant {tenant} has {most} open {what}, which is all that it may have.",
                remedy=f"Wait until some have ended, cancel some, or have the server's setting {setting} raised.",
                headers={"retry-after": str(_RETRY_AFTER_S)},
                closing=True,
            )

    def check_bytes(self, caller: Caller, size: int) -> None:
        """Refused if so many bytes more would be more than the tenant may send in a day."""
        most = self._service.app.settings.tenant_max_daily_bytes
        if caller.tenant is None or most is None or self._sent(caller.tenant) + size <= most:
            return
        raise Refused(
            429,
            "tenant_quota",
            f"The tenant {caller.tenant} may send {most:,} bytes in a day.",
            remedy="Send it tomorrow (UTC), or have the server's setting tenant_max_daily_bytes raised.",
            headers={"retry-after": str(ceil(_DAY_S - self._now() % _DAY_S))},
            closing=True,
        )

    def sent(self, caller: Caller, size: int) -> None:
        """Count a document that was taken in."""
        if caller.tenant is not None:
            self._bytes[caller.tenant] = self._sent(caller.tenant) + size

    def _sent(self, tenant: str) -> int:
        day = int(self._now() // _DAY_S)
        if day != self._day:
            self._day, self._bytes = day, {}
        return self._bytes.get(tenant, 0)

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


class _Counts:
    """What is open of each tenant, counted now and then, and what was added here since."""

    def __init__(self, service: Service, count: Callable[[Ledger, str], int]) -> None:
        self._service = service
        self._count = count
        self._known: dict[str, tuple[float, int]] = {}

    async def open(self, tenant: str) -> int:
        """How many there are; the one that is asked for is counted from now on."""
        fresh_until, known = self._known.get(tenant, (0.0, 0))
        began = time.monotonic()
        if began >= fresh_until:
            known = await self._service.ask(self._count, self._service.app.ledger, tenant)
            took_s = time.monotonic() - began
            fresh_until = time.monotonic() + max(FRESH_S, _SHARE * took_s)
            if len(self._known) >= _MOST_KEYS:
                del self._known[next(iter(self._known))]
        self._known[tenant] = (fresh_until, known + 1)
        return known


def _open_jobs(ledger: Ledger, tenant: str) -> int:
    return ledger.open_job_count(tenant)


def _open_tasks(ledger: Ledger, tenant: str) -> int:
    return sum(count for (_, status), count in ledger.count(tenant=tenant).items() if status in _OPEN)
