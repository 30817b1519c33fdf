"""What a contender is, and what one of its processes is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

Option = bool | int | float | str


@dataclass(frozen=True, eq=False)
class Contender:
    """An engine with its own settings, on one kind of store."""

    name: str
    side: str
    options: dict[str, Option] = field(default_factory=dict)
    store: str = "PostgreSQL"
    limits: str = ""
    """The store of its limits, where that is another one."""

    @property
    def is_ours(self) -> bool:
        return self.side == "ours"


@dataclass(frozen=True, kw_only=True)
class Orders:
    """The same for all processes of one measurement."""

    side: str
    address: str
    folder: str
    limits: str = ""
    options: dict[str, Option] = field(default_factory=dict)
    in_flight: int = 0
    """The cap that the engine is asked for; 0 is none."""
    provider: str = ""
    """Whom a handler calls; without one it works by itself."""
    work_s: float = 0.0

    @property
    def marks(self) -> Path:
        return Path(self.folder) / "marks"

    def text(self) -> str:
        return json.dumps(asdict(self))

    def environment(self) -> dict[str, str]:
        """Forebay's settings: nothing of the user's own, and all files in the folder of this measurement."""
        return {
            "FOREBAY_HOME": self.folder,
            "FOREBAY_LEDGER": self.address,
            "FOREBAY_ENV": "bench",
        } | ({"FOREBAY_LIMITS": self.limits} if self.limits else {})

    def number(self, name: str, default: float) -> float:
        return float(self.options.get(name, default))

    def count(self, name: str, default: int) -> int:
        return int(self.options.get(name, default))


class Recorded(Protocol):
    """Looks into the store from outside."""

    def is_complete(self) -> bool:
        """Whether nothing is left to do; asked for again and again."""

    def waiting(self) -> int: ...

    def ended(self) -> tuple[int, int]:
        """How many tasks ended well, and how many of them did so once."""

    def close(self) -> None: ...


class Side(Protocol):
    """What each module of benchmarks.fleet.sides has."""

    def prepare(self, orders: Orders) -> None: ...

    def fill(self, orders: Orders, count: int) -> float:
        """Submit in bulk; how many seconds that took, without connecting."""

    def submitting(self, orders: Orders) -> AbstractContextManager[Callable[[int], object]]: ...

    def work(self, orders: Orders) -> None: ...

    def recorded(self, orders: Orders) -> Recorded: ...


def side(name: str) -> Side:
    """Each engine imports only itself: what another one costs shall not be counted."""
    return cast("Side", import_module(f"benchmarks.fleet.sides.{name}"))
