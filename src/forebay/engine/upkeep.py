"""What every worker does for all: returns lost work to the line, and deletes what is older than its retention."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from functools import partial

from forebay.engine.aside import aside
from forebay.errors import StoreError
from forebay.model.exchange import Action
from forebay.model.task import Status
from forebay.observe import emit
from forebay.rules.verdict import ErrorClass
from forebay.stores.base import Ledger

_PRUNE_S = 60.0
_PRUNED = 500


async def rescue(ledger: Ledger, every_s: float) -> None:
    while True:
        await asyncio.sleep(_spread(every_s))
        try:
            await aside("rescue", _rescued, ledger)
        except StoreError as error:
            emit("store_failed", verb="rescue", error_code=error.code, text=str(error), pause_s=every_s)


def _rescued(ledger: Ledger) -> None:
    """Blocking. Nobody but who finds them can say of tasks that end their workers that they have failed."""
    rescued = ledger.rescue()
    if rescued:
        emit("tasks_rescued", count=len(rescued))
    for task_id in rescued:
        task = ledger.get(task_id)
        if task is not None and task.status is Status.FAILED and task.error_class == ErrorClass.POISON:
            held_s = (task.finished_at or 0.0) - ledger.history(task_id)[-1].claimed_at
            named = {"task_id": task.id, "kind": task.kind, "attempt": task.attempt_count}
            emit("task_failed", **named, error_class=task.error_class, run_s=round(held_s, 6))


async def prune(ledger: Ledger, retention_s: Mapping[Status, float], who: str) -> None:
    while retention_s:
        count, took_s = 0, 0.0
        try:
            began = time.monotonic()
            action = Action(who=who, note="retention")
            count = await aside("prune", partial(ledger.prune, most=_PRUNED), retention_s, action)
            took_s = time.monotonic() - began
        except StoreError as error:
            emit("store_failed", verb="prune", error_code=error.code, text=str(error), pause_s=_PRUNE_S)
        if count:
            emit("pruned", count=count)
        # A third of the time at most: others want to write, too.
        await asyncio.sleep(2 * took_s if count else _spread(_PRUNE_S))


def _spread(seconds: float) -> float:
    """Not all workers at once."""
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
