"""Limits in this process: shared by its threads and loops, gone when it ends."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable

from forebay.model.limit_record import Answer, Ask, Record
from forebay.rules import admission
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

    def exchange(self, limit: str, ask: Ask) -> Answer:
        with self._lock:
            record = self._records.get(limit)
            if record is None:
                return admission.unknown(self._clock())
            answer = admission.decide(record, ask, self._clock())
            # Copies: a grant that is not confirmed yet may still grow.
            answer["grants"] = [grant.copy() for grant in answer["grants"]]
            told = [
                (self._wakes[sid], [grant.copy() for grant in record["seats"][sid]["out"]])
                for sid in answer["wakes"]
                if sid in self._wakes
            ]
        for wake, grants in told:
            wake(limit, grants, answer["now"])
        return answer

    renew = exchange

    def read(self, limit: str) -> tuple[Record | None, int]:
        with self._lock:
            return copy.deepcopy(self._records.get(limit)), self._clock()

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
