"""Decides when a worker's next exchange is worth its cost, and sleeps until then."""

from __future__ import annotations

import asyncio
import time

from forebay.engine.gate import Gate
from forebay.engine.quotas import Quotas
from forebay.engine.room import Room

_LINGER_S = 0.005


class Pace:
    """What is done waits a moment for more; `hint` says that the ledger may have something new."""

    def __init__(self, room: Room, gate: Gate, quotas: Quotas, batch: int) -> None:
        self._room = room
        self._gate = gate
        self._quotas = quotas
        self._batch = batch
        self._event = asyncio.Event()
        self._lingers_until = 0.0
        self.hint = False

    def wake(self) -> None:
        """Something has changed."""
        self._event.set()

    def ended(self, *, done: int, in_hand: int) -> None:
        """The first one starts the clock of those that linger; between it and a whole batch nobody need wake up."""
        if done == 1:
            self._lingers_until = time.monotonic() + _LINGER_S
        if not self._event.is_set() and (done <= 1 or self.has_batch(done=done, in_hand=in_hand)):
            self._event.set()

    def is_time(self, ends_at: float, ready: set[str], *, done: int, in_hand: int) -> bool:
        """Whether enough is done, or has waited long enough; at the latest at `ends_at`."""
        now = time.monotonic()
        if self._quotas.hungry:
            return True
        if not done:
            curious = self._room.has_some(ready) or self._quotas.curious(ready)
            return now >= ends_at or (self.hint and curious)
        return self.has_batch(done=done, in_hand=in_hand) or now >= self._lingers_until

    def has_batch(self, *, done: int, in_hand: int) -> bool:
        """As many as are fetched at once, or all there is: the one batch runs while the other is exchanged."""
        if self._room.blocks:
            return done >= in_hand
        return done >= self._batch or not (self._gate.waits or self._quotas.backed_up)

    async def sleep(self, within_s: float, *, done: int) -> None:
        """Until something changes, or for so long; less if something is done that lingers."""
        if done:
            within_s = min(within_s, max(0.0, self._lingers_until - time.monotonic()))
        self._event.clear()
        timer = asyncio.get_running_loop().call_later(max(0.0, within_s), self._event.set)
        try:
            await self._event.wait()
        finally:
            timer.cancel()
