"""What a fault of the limiter is made of: where it strikes, under which load, and what was promised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.limits.adapter import Settings
from chaos.limits.checks import (
    Check,
)
from chaos.limits.load import Plan
from chaos.limits.rules import Rules, Window, trail_of
from chaos.limits.stage import ServerStage, Stage
from chaos.limits.stage_redis import RedisStage, ReplicatedStage
from chaos.limits.stage_sql import PostgresStage

OURS = "chaos.limits.ours:Ours"
START_S, TRANSIT_S = 0.25, 0.05
TRAIL_S = START_S + TRANSIT_S
CALL_S, LEASE_S, BEAT_S = 1.0, 1.5, 0.4
W_S = 2.0
W_EFF_S = W_S + TRAIL_S
HOLD_S = max(W_EFF_S, CALL_S + TRAIL_S)
HELD_S = CALL_S + trail_of(START_S, TRANSIT_S, has_windows=False)
"""How long after its grant a call may be in progress, in a limit without windows."""
LOOSE: Settings = {"windows": [[1_000_000, W_S]]}
"""A window that never binds: with one, calls start soon after their grants, and news of a cool-down reaches all."""
SLACK_S = 0.3
"""For the clocks and wake-ups of a busy machine, where a promise is about when and not about how many."""
REPLICATED = ("sentinel", "cluster")
ALL, SHARED, SERVED = ("memory", "sqlite", "redis", "postgres"), ("sqlite", "redis", "postgres"), ("redis", "postgres")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Where a scenario runs, and in which of its two lengths."""

    stage: Stage
    store: str
    folder: Path
    adapter: str = OURS
    short: bool = False

    @property
    def server(self) -> ServerStage:
        assert isinstance(self.stage, ServerStage)
        return self.stage

    @property
    def postgres(self) -> PostgresStage:
        assert isinstance(self.stage, PostgresStage)
        return self.stage

    @property
    def redis(self) -> RedisStage:
        assert isinstance(self.stage, RedisStage)
        return self.stage

    @property
    def replicated(self) -> ReplicatedStage:
        assert isinstance(self.stage, ReplicatedStage)
        return self.stage

    def length(self, whole_s: float, short_s: float) -> float:
        return short_s if self.short else whole_s


Afterwards = Callable[[], Iterator[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    plan: Plan
    rules: Rules
    checks: tuple[Check, ...] = ()
    needs: tuple[Check, ...] = ()
    """Without these it shows nothing."""
    before: Callable[[], None] | None = None
    """What is done before the load begins."""
    afterwards: tuple[Afterwards, ...] = ()
    """What is looked for in the store itself when all processes are gone."""
    figures: dict[str, int] = field(default_factory=dict)
    """What else was counted on the way."""


Build = Callable[[Cast], Run]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    build: Build
    stores: tuple[str, ...] = SHARED
    durable: bool = False
    """The server keeps what it knows when it is killed."""


def cast_run(
    cast: Cast,
    *,
    seconds: float,
    in_flight: int | None = 8,
    window: Window | None = None,
    unit: str = "calls",
    settings: Settings | None = None,
    rules: dict[str, Any] | None = None,
    checks: tuple[Check, ...] = (),
    needs: tuple[Check, ...] = (),
    before: Callable[[], None] | None = None,
    afterwards: tuple[Afterwards, ...] = (),
    figures: dict[str, int] | None = None,
    **plan: Any,  # noqa: ANN401 - as Plan has them
) -> Run:
    """Threads and tasks at once: by process, or in the only one."""
    crowd: dict[str, Any] = {"processes": 4, "callers": 4, "mixed": True}
    if cast.store == "memory":
        crowd = {"processes": 1, "callers": 8, "loops": 2}
    said: Settings = {
        "limit": "chaos",
        "in_flight": in_flight,
        "windows": [] if window is None else [[window.n, window.window_s, unit]],
        "unit": unit,
        "start_within_s": START_S,
        "transit_s": TRANSIT_S,
        "call_timeout_s": CALL_S,
        "lease_s": LEASE_S,
        "heartbeat_s": BEAT_S,
    }
    return Run(
        plan=Plan(
            folder=cast.folder,
            settings=said | (settings or {}),
            seconds=seconds,
            **(crowd | {"adapter": cast.adapter, "address": cast.stage.address, "work_s": 0.1} | plan),
        ),
        rules=Rules(
            in_flight=in_flight,
            windows=() if window is None else (window,),
            trail_s=trail_of(START_S, TRANSIT_S, has_windows=window is not None or "windows" in (settings or {})),
            ramp="arrivals",
            window_extra_s=TRAIL_S,
            **(rules or {}),
        ),
        checks=checks,
        needs=needs,
        before=before,
        afterwards=afterwards,
        figures={} if figures is None else figures,
    )
