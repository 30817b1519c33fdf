"""Opens a limit store whose clock is shifted, from the instant on at which a file says by how much."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from forebay.stores.limit_base import LimitStore
from forebay.stores.memory.limits import MemoryLimits, monotonic_ms
from forebay.stores.postgres.limits import PostgresLimits
from forebay.stores.redis.limits import RedisLimits
from forebay.stores.sqlite.boot_clock import Moment, moment
from forebay.stores.sqlite.limits import SqliteLimits

Shift = Callable[[], int]


def opened(address: str, environment: str, clock: str) -> LimitStore:
    """`clock` is the file."""
    shift = _shift_in(Path(clock))
    match urlsplit(address).scheme:
        case "memory":
            return MemoryLimits(clock=lambda: monotonic_ms() + shift())
        case "sqlite":
            return SqliteLimits(address.removeprefix("sqlite:///"), environment=environment, clock=_moment(shift))
        case "postgresql":
            return MovedPostgres(address, environment, shift)
        case _:
            return MovedRedis(address, environment, shift)


def _shift_in(file: Path) -> Shift:
    def shift() -> int:
        try:
            return int(file.read_bytes())
        except FileNotFoundError:
            return 0

    return shift


def _moment(shift: Shift) -> Callable[[], Moment]:
    def moved() -> Moment:
        now, by = moment(), shift()
        return Moment(now.boot, now.ticks + by, now.wall + by)

    return moved


class MovedRedis(RedisLimits):
    def __init__(self, address: str, environment: str, by: Shift) -> None:
        super().__init__(address, environment=environment)
        self._by = by

    @property
    def shift(self) -> int:  # type: ignore[override]  # asked anew at each step
        return self._by()


class MovedPostgres(PostgresLimits):
    def __init__(self, address: str, environment: str, by: Shift) -> None:
        super().__init__(address, environment=environment)
        self._by = by

    @property
    def shift(self) -> int:  # type: ignore[override]  # asked anew at each step
        return self._by()
