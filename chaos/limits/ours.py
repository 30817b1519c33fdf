"""Forebay's own limiter, as the load uses it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from chaos.journal import Journal
from chaos.limits.adapter import Settings
from forebay.errors import StoreError
from forebay.limits import Limit, Limiter, Slot, Window
from forebay.stores.limit_address import open_limits
from forebay.stores.limit_base import LimitStore

ENVIRONMENT = "chaos"
_PAUSE_S = 0.05
_FIELDS = ("lease_s", "heartbeat_s", "when_store_down", "on_disconnect", "cooldown_s", "breaker_after")


class Ours:
    """Every process defines the same limit, as programs do."""

    wait_s = 600.0

    def __init__(
        self, address: str, settings: Settings, *, store: LimitStore | None = None, defines: bool = True
    ) -> None:
        self._settings = settings
        self._limiter = Limiter(store or _store(address, settings), environment=ENVIRONMENT)
        self._name = settings["limit"]
        self._units = {settings.get("unit", "calls"): settings["units"]}
        self._late_s: float = settings.get("late_s", 0.0)
        self._without_hint: bool = settings.get("without_hint", False)
        self._errors = Journal(Path(settings["errors"])) if "errors" in settings else None
        if defines:
            self._limiter.define(self.limit())

    @staticmethod
    def prepare(address: str) -> None:
        """Nothing is opened, but its modules are loaded."""
        open_limits(address, ENVIRONMENT).close()

    def limit(self) -> Limit:
        settings = self._settings
        fields: dict[str, Any] = {name: settings[name] for name in _FIELDS if name in settings}
        return Limit(
            self._name,
            in_flight=settings["in_flight"],
            windows=tuple(Window(*window) for window in settings["windows"]),
            start_within_s=settings["start_within_s"],
            transit_s=settings["transit_s"],
            call_timeout_s=settings["call_timeout_s"],
            **fields,
        )

    @contextmanager
    def slot(self) -> Iterator[Told]:
        while (slot := self._entered(self._slot())) is None:
            time.sleep(_PAUSE_S)
        try:
            if self._late_s:
                time.sleep(self._late())
            yield self.told(slot)
        except StoreError as error:
            self._note(error)
        finally:
            slot.release()

    def _entered(self, slot: Slot) -> Slot | None:
        try:
            return slot.take()
        except StoreError as error:
            self._note(error)
            return None

    @asynccontextmanager
    async def aslot(self) -> AsyncIterator[Atold]:
        while (slot := await self._aentered(self._slot())) is None:  # noqa: ASYNC110 - there is nobody to wake it
            await asyncio.sleep(_PAUSE_S)
        try:
            if self._late_s:
                await asyncio.sleep(self._late())
            yield self.atold(slot)
        except StoreError as error:
            self._note(error)
        finally:
            slot.release()

    async def _aentered(self, slot: Slot) -> Slot | None:
        try:
            return await slot.atake()
        except StoreError as error:
            self._note(error)
            return None

    def _slot(self) -> Slot:
        return self._limiter.slot(self._name, units=self._units, timeout_s=self.wait_s)

    def told(self, slot: Slot) -> Told:
        return Told(slot, without_hint=self._without_hint)

    def atold(self, slot: Slot) -> Atold:
        return Atold(slot, without_hint=self._without_hint)

    def _late(self) -> float:
        """How long this caller dawdles between its slot and its call."""
        return random.uniform(0, self._late_s)

    def _note(self, error: StoreError) -> None:
        """Where callers are told that the store is gone they go on; anywhere else it is a crash."""
        if self._errors is None:
            raise error
        self._errors.note("error", kind=type(error).__name__)

    def close(self) -> None:
        self._limiter.close()


def _store(address: str, settings: Settings) -> str | LimitStore:
    if "clock" not in settings:
        return address
    from chaos.limits.moved import opened  # noqa: PLC0415 - loads all stores

    return opened(address, ENVIRONMENT, settings["clock"])


class Told:
    """What the load says, in the limiter's words."""

    def __init__(self, slot: Slot, *, without_hint: bool) -> None:
        self._slot = slot
        self._without_hint = without_hint

    def start(self) -> object:
        self._slot.start()
        return None

    def throttled(self, retry_after_s: float) -> None:
        self._slot.throttled(None if self._without_hint else retry_after_s)

    def failed(self, _status: float) -> None:
        self._slot.failed()


class Atold(Told):
    def start(self) -> object:
        return self._slot.astart()
