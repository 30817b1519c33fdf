"""Ends a worker by itself when nothing that it could run is left, neither now nor later, here nor elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from forebay.engine.registry import Registry
from forebay.errors import StoreError
from forebay.model.callback import KIND as CALLBACK
from forebay.observe import emit
from forebay.stores.base import Ledger

_LEAST_PAUSE_S = 0.05
_SHARE = 20  # at most a twentieth of the time goes into looking, however much is waiting


async def drain_when_idle(ledger: Ledger, registry: Registry, drain: Callable[[str], None]) -> None:
    """A task that waits for its time, or in a paused lane, is waited for; a callback only as long as it is due."""
    kinds = {kind.name for kind in registry}
    while True:
        began = time.monotonic()
        if not await asyncio.to_thread(_some_left, ledger, kinds):
            drain("idle")
            return
        await asyncio.sleep(max(_LEAST_PAUSE_S, _SHARE * (time.monotonic() - began)))


def _some_left(ledger: Ledger, kinds: set[str]) -> bool:
    try:
        lanes = ledger.lanes()
    except StoreError as error:
        emit("store_failed", verb="lanes", error_code=error.code, text=str(error), pause_s=_LEAST_PAUSE_S)
        return True
    if any(lane.kind in kinds and lane.ready_count + lane.later_count + lane.running_count for lane in lanes):
        return True
    # A callback that was refused waits for hours: the next worker sends it again.
    due = (lane for lane in lanes if lane.kind == CALLBACK and lane.paused_at is None)
    return any(lane.ready_count + lane.running_count for lane in due)
