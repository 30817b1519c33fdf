"""Sessions as a store sees them: they ask as a process would, though two processes drive all of them."""

from __future__ import annotations

import time
from collections.abc import Iterable

from forebay.model.limit_record import Answer, Ask, Grant
from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import Process

ENVIRONMENT = "bench"
LIMIT = "line"


class _PassingTime(HandClock):
    """The time that really passes, where a hand clock stands still."""

    def __init__(self) -> None:
        self.shown = 0
        self.moved = None

    @property
    def steady(self) -> int:  # type: ignore[override]  # it is set nowhere
        return time.monotonic_ns() // 1_000_000


_TIME = _PassingTime()


class Session(Process):
    """One of many of a driver; it has one caller."""

    def __init__(self, store: LimitStore, sid: str) -> None:
        super().__init__(store, _TIME, sid, limit=LIMIT)

    def goes_round(self) -> Answer:
        """Give back what it holds and stand in line again, in one exchange."""
        self.ends([*self.calls])
        self.joins()
        return self.exchanges()

    def beat_ask(self) -> Ask:
        return self._said(0)

    def hears(self, grants: Iterable[Grant]) -> None:
        super().hears(grants)
        self.grants.clear()  # nobody asks for all that it ever heard of


def sids(driver: int, count: int) -> list[str]:
    return [f"driver{driver}-{number}" for number in range(count)]
