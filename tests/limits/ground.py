"""Stores that fail on demand, and clocks that can be moved, for tests of the limiter."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from forebay.errors import StoreUnreachable
from forebay.model.limit_record import Answer, Ask, Record
from forebay.stores.limit_base import LimitStore, Step, Wake
from forebay.stores.memory.limits import MemoryLimits


class Switchable:
    """A store that is there or not; `lost` makes it do what it is asked and lose the answer."""

    instant = False

    def __init__(self, store: LimitStore | None = None) -> None:
        self.store = store or MemoryLimits()
        self.down = False
        self.lost = 0
        self.asked = 0

    def _answered(self, ask: Ask, verb: Callable[[str, Ask], Answer], limit: str) -> Answer:
        self.asked += 1
        if self.down:
            raise StoreUnreachable("It is switched off.")
        answer = verb(limit, ask)
        if self.lost:
            self.lost -= 1
            raise StoreUnreachable("Its answer was lost.")
        return answer

    def exchange(self, limit: str, ask: Ask) -> Answer:
        return self._answered(ask, self.store.exchange, limit)

    def renew(self, limit: str, ask: Ask) -> Answer:
        return self._answered(ask, self.store.renew, limit)

    def give_back(self, limit: str, ask: Ask) -> Answer:
        return self._answered(ask, self.store.give_back, limit)

    def send_back(self, limit: str, ask: Ask) -> bool:
        return False

    def find(self, limit: str, session: str) -> tuple[Record | None, int]:
        if self.down:
            raise StoreUnreachable("It is switched off.")
        return self.store.find(limit, session)

    def read(self, limit: str) -> tuple[Record | None, int]:
        return self.store.read(limit)

    def read_many(self, limits: Sequence[str]) -> list[tuple[Record | None, int]]:
        return self.store.read_many(limits)

    def change(self, limit: str, step: Step) -> Record | None:
        if self.down:
            raise StoreUnreachable("It is switched off.")
        return self.store.change(limit, step)

    def names(self) -> list[str]:
        return self.store.names()

    def listen(self, sid: str, wake: Wake) -> Callable[[], None]:
        return self.store.listen(sid, wake)

    def close(self) -> None:
        self.store.close()


def until(true: Callable[[], object], within_s: float = 30.0) -> None:
    """Wait for what a thread is about to do."""
    gives_up_at = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < gives_up_at, "it did not happen in time"
        time.sleep(0.002)
