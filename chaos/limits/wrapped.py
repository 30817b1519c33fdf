"""A limit store that passes everything on: a base for stores that change what they are asked or what they answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from forebay.model.limit_record import Answer, Ask, Record
from forebay.stores.limit_base import LimitStore, Step, Wake


class Wrapped:
    def __init__(self, store: LimitStore) -> None:
        self._store = store
        self.instant = store.instant

    def exchange(self, limit: str, ask: Ask) -> Answer:
        return self._store.exchange(limit, ask)

    def renew(self, limit: str, ask: Ask) -> Answer:
        return self._store.renew(limit, ask)

    def give_back(self, limit: str, ask: Ask) -> Answer:
        return self._store.give_back(limit, ask)

    def send_back(self, limit: str, ask: Ask) -> bool:
        return self._store.send_back(limit, ask)

    def find(self, limit: str, session: str) -> tuple[Record | None, int]:
        return self._store.find(limit, session)

    def read(self, limit: str) -> tuple[Record | None, int]:
        return self._store.read(limit)

    def read_many(self, limits: Sequence[str]) -> list[tuple[Record | None, int]]:
        return self._store.read_many(limits)

    def change(self, limit: str, step: Step) -> Record | None:
        return self._store.change(limit, step)

    def names(self) -> list[str]:
        return self._store.names()

    def listen(self, sid: str, wake: Wake) -> Callable[[], None]:
        return self._store.listen(sid, wake)

    def close(self) -> None:
        self._store.close()


class Shared(Wrapped):
    """Several sessions of one process use it, a few at once: it outlives each of them."""

    def __init__(self, store: LimitStore, *, at_once: int = 3) -> None:
        super().__init__(store)
        self._turns = threading.BoundedSemaphore(at_once)
        self._beats = threading.BoundedSemaphore()

    def exchange(self, limit: str, ask: Ask) -> Answer:
        with self._turns:
            return super().exchange(limit, ask)

    def renew(self, limit: str, ask: Ask) -> Answer:
        with self._beats:
            return super().renew(limit, ask)

    def give_back(self, limit: str, ask: Ask) -> Answer:
        with self._turns:
            return super().give_back(limit, ask)

    def close(self) -> None:
        """The process ends it."""
