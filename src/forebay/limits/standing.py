"""A place in a limit's line for those who decide later what to do with the slot: they are told when it is theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from forebay.clock import steady
from forebay.limits import telling
from forebay.limits.call import Call
from forebay.limits.desk import Desk
from forebay.limits.pump import Pump
from forebay.limits.slot import Slot
from forebay.limits.waiting import Waiter

Told = Callable[["Wish"], None]
_LATE_S = 5.0  # for a slot that was used so late that it has to stand in line once more, at its head


class Wish(Waiter):
    """One slot that is wished for; whoever wished is told in their loop, once, of the slot or of what went wrong."""

    __slots__ = ("_told", "_was_told", "since", "units")

    def __init__(self, loop: asyncio.AbstractEventLoop, units: dict[str, int], told: Told) -> None:
        super().__init__()
        self.loop = loop
        self.units = units
        self.since = steady()
        self._told = told
        self._was_told = False

    def wake(self) -> None:
        if not self._was_told:
            self._was_told = True
            self._told(self)


class Stand:
    """Where a worker stands in line, in its own event loop, without a task to hand."""

    def __init__(self, desk: Desk, pump: Pump, *, keeper: object, loop: asyncio.AbstractEventLoop, label: str) -> None:
        self._desk = desk
        self._pump = pump
        self._keeper = keeper
        self._label = label
        self._loop = loop

    def join(self, units: dict[str, int], told: Told, *, front: bool = False) -> Wish:
        """`told` is never called before this returns."""
        wish = Wish(self._loop, units, told)
        line = self._desk.line
        with line.lock:
            refusal = self._desk.refusal()
            if refusal is None:
                # A wish is for no task of its own: which of them came first means nothing.
                line.join(wish, units, label=self._label, front=front, anyhow=True)
        if refusal is not None:
            wish.settle(refusal)
            self._loop.call_soon(wish.wake)
        elif line.store.instant:
            self._loop.call_soon(self._pump.drive, self._desk)
        else:
            self._pump.poke(self._desk)
        return wish

    def leave(self, wish: Wish) -> None:
        """Wish for it no more; what was granted just then goes back unsent, and nobody is told."""
        for line in self._desk.lines:
            with line.lock:
                if line.leave(wish):
                    break
        else:
            if isinstance(wish.result, Call):
                with wish.result.line.lock:
                    wish.result.line.finish(wish.result.id, "unsent")
        wish.settle(None)
        self._pump.poke(self._desk)

    def slot(self, wish: Wish) -> Slot:
        """What a wish was granted, held from now on. Call its `astart()` before the call is made."""
        call = wish.result
        assert isinstance(call, Call)  # noqa: S101 - for the type checker: else there is an error to handle
        slot = Slot(
            self._desk,
            self._pump,
            keeper=self._keeper,
            units=wish.units,
            timeout_s=_LATE_S,
            label=self._label,
            call=call,
        )
        telling.acquired(self._desk, slot.id, steady() - wish.since, 1)
        return slot
