"""The one way to read time: instants are UTC seconds since the epoch, and tests can move them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What a store asks for the time; each store has exactly one."""

    def now(self) -> float: ...


class SystemClock:
    """The machine's wall clock."""

    def now(self) -> float:
        return time.time()


# Both count the time that the machine slept where the platform can, and are the same for all its processes.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady() -> float:
    """Seconds that pass whatever happens to the wall clock, for deadlines on this machine."""
    return time.clock_gettime(_STEADY)


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


def iso(instant: float) -> str:
    """An instant as people and JSON read it: 2026-01-27T12:05:00.000Z."""
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
