"""A limiter as a benchmark uses it: a gate waits for leave, makes one call inside, and gives back what it took."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeAlias

Gate: TypeAlias = Callable[[Callable[[], object]], object]
Agate: TypeAlias = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Bound:
    """What the limiter is to enforce, as far as it knows such bounds."""

    n: int
    per_s: int
    in_flight: int


LOOSE = Bound(n=1_000_000, per_s=60, in_flight=1_000)
Opened: TypeAlias = AbstractContextManager[Gate]
Aopened: TypeAlias = AbstractAsyncContextManager[Agate]


@dataclass(frozen=True, slots=True)
class Contender:
    """One of `opens`, for threads, and `aopens`, for tasks; both take the address of the store."""

    name: str
    opens: Callable[[str, Bound], Opened] | None = None
    aopens: Callable[[str, Bound], Aopened] | None = None
    is_ours: bool = False
    has_windows: bool = True
    setting: str = ""


def nothing() -> None:
    pass


async def anothing() -> None:
    pass


@contextmanager
def plain(_address: str, _bound: Bound) -> Iterator[Gate]:
    """No limiter at all."""
    yield lambda inside: inside()


@asynccontextmanager
async def aplain(_address: str, _bound: Bound) -> AsyncIterator[Agate]:
    yield lambda inside: inside()
