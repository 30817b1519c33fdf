"""Forebay's own limiter, as the load uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from chaos.limits.adapter import Settings
from forebay.limits import Limit, Limiter, Slot, Window

_WAIT_S = 600.0


class Ours:
    """Every process defines the same limit, as programs do."""

    def __init__(self, address: str, settings: Settings) -> None:
        self._limiter = Limiter(address, environment="chaos")
        self._name = settings["limit"]
        self._units = {"calls": settings["units"]}
        fields: dict[str, Any] = {
            name: settings[name]
            for name in ("lease_s", "heartbeat_s", "when_store_down", "on_disconnect", "cooldown_s", "breaker_after")
            if name in settings
        }
        self._limiter.define(
            Limit(
                self._name,
                in_flight=settings["in_flight"],
                windows=tuple(Window(n, per_s) for n, per_s in settings["windows"]),
                start_within_s=settings["start_within_s"],
                transit_s=settings["transit_s"],
                call_timeout_s=settings["call_timeout_s"],
                **fields,
            )
        )

    @contextmanager
    def slot(self) -> Iterator[Told]:
        with self._limiter.slot(self._name, units=self._units, timeout_s=_WAIT_S) as slot:
            yield Told(slot)

    @asynccontextmanager
    async def aslot(self) -> AsyncIterator[Atold]:
        async with self._limiter.slot(self._name, units=self._units, timeout_s=_WAIT_S) as slot:
            yield Atold(slot)

    def close(self) -> None:
        self._limiter.close()


class Told:
    """What the load says, in the limiter's words."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    def start(self) -> object:
        self._slot.start()
        return None

    def throttled(self, retry_after_s: float) -> None:
        self._slot.throttled(retry_after_s)

    def failed(self, _status: float) -> None:
        self._slot.failed()


class Atold(Told):
    def start(self) -> object:
        return self._slot.astart()
