"""Limits in this process: shared by its threads and loops, gone when it ends."""

from __future__ import annotations

import copy
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence

from forebay.model.limit_record import Answer, Ask, Record
from forebay.rules import admission
from forebay.rules import limit_state as state
from forebay.stores.limit_base import Step, Wake


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class MemoryLimits:
    """The reference: the rules under a lock."""

    instant = True

    def __init__(self, *, clock: Callable[[], int] = monotonic_ms) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._records: dict[str, Record] = {}
        self._wakes: dict[str, Wake] = {}
        _alive.add(self)

    def exchange(self, limit: str, ask: Ask) -> Answer:
        with self._lock:
            record = self._records.get(limit)
            if record is None:
                return admission.unknown(self._clock())
            answer = admission.decide(record, ask, self._clock())
            # Copies: a grant that is not confirmed yet may still grow.
            answer["grants"] = [grant.copy() for grant in answer["grants"]]
            told = [
                (self._wakes[sid], [grant.copy() for grant in record["sessions"][sid]["unconfirmed"]])
                for sid in answer["woken_session_ids"]
                if sid in self._wakes
            ]
        for wake, grants in told:
            wake(limit, grants, answer["now"])
        return answer

    renew = exchange

    def give_back(self, limit: str, ask: Ask) -> Answer:
        return self.exchange(limit, ask)

    def send_back(self, limit: str, ask: Ask) -> bool:  # noqa: ARG002 - of the contract
        return False  # nor does give_back wait for anything

    def find(self, limit: str, session: str) -> tuple[Record | None, int]:
        with self._lock:
            record = self._records.get(limit)
            return None if record is None else copy.deepcopy(state.only(record, session)), self._clock()

    def read(self, limit: str) -> tuple[Record | None, int]:
        with self._lock:
            return copy.deepcopy(self._records.get(limit)), self._clock()

    def read_many(self, limits: Sequence[str]) -> list[tuple[Record | None, int]]:
        return [self.read(limit) for limit in limits]

    def change(self, limit: str, step: Step) -> Record | None:
        with self._lock:
            changed = step(copy.deepcopy(self._records.get(limit)), self._clock())
            if changed is not None:
                self._records[limit] = changed
            return changed

    def names(self) -> list[str]:
        with self._lock:
            return sorted(self._records)

    def listen(self, sid: str, wake: Wake) -> Callable[[], None]:
        with self._lock:
            self._wakes[sid] = wake
        return lambda: self._forget(sid)

    def _forget(self, sid: str) -> None:
        with self._lock:
            self._wakes.pop(sid, None)

    def close(self) -> None:
        with self._lock:
            self._wakes.clear()

    def after_fork(self) -> None:
        """In a child, which has a copy of its own: another thread may have held the lock."""
        self._lock = threading.Lock()
        self._wakes = {}


_alive: weakref.WeakSet[MemoryLimits] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for store in list(_alive):
        store.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
