"""What every worker does for all: returns lost work to the line, and deletes what is older than its retention."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

from forebay.errors import StoreError
from forebay.model.exchange import Action
from forebay.model.task import Status
from forebay.observe import emit
from forebay.stores.base import Ledger

_PRUNE_S = 60.0


async def rescue(ledger: Ledger, every_s: float) -> None:
    while True:
        await asyncio.sleep(_spread(every_s))
        try:
            rescued = await asyncio.to_thread(ledger.rescue)
        except StoreError as error:
            emit("store_failed", verb="rescue", error_code=error.code, pause_s=every_s)
            continue
        if rescued:
            emit("tasks_rescued", count=len(rescued))


async def prune(ledger: Ledger, retention_s: Mapping[Status, float], who: str) -> None:
    while retention_s:
        try:
            count = await asyncio.to_thread(ledger.prune, retention_s, Action(who=who, note="retention"))
        except StoreError as error:
            emit("store_failed", verb="prune", error_code=error.code, pause_s=_PRUNE_S)
            count = 0
        if count:
            emit("pruned", count=count)
        else:
            await asyncio.sleep(_spread(_PRUNE_S))


def _spread(seconds: float) -> float:
    """Not all workers at once."""
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
