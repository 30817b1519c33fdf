"""Holds back a chunk whose call would break a budget: what was used counts, and what is under way before it."""

from __future__ import annotations

import time
from collections.abc import Iterable

from forebay.engine.context import Context
from forebay.model.budget import Budget
from forebay.model.query import Query
from forebay.model.task import Status, Task
from forebay.pipelines.ground import Ground
from forebay.pipelines.listing import whole
from forebay.pipelines.part import Part
from forebay.processors.base import Price, Processor
from forebay.rules import budgets as rules
from forebay.rules import chunks
from forebay.rules.budgets import Exhausted

CALLS = "calls"
PAGES = "pages"
_LOOKS = 5
_ENTRIES = 8


def held_back(ground: Ground, ctx: Context, part: Part) -> Exhausted | None:
    """Blocking. Of chunks that start at the same moment the one that was claimed first goes first."""
    processor = part.order.processor
    applying = rules.applying(ground.budgets(), processor, ctx.tenant)
    if not applying:
        return None
    now = time.time()
    before, used = _seen(ground, ctx, processor, applying, now)
    for _ in range(_LOOKS):
        # A chunk that ends between the two looks would count twice, and this one be held back for nothing.
        last, (before, used) = used, _seen(ground, ctx, processor, applying, now)
        if used == last:
            break
    price = ground.processors[processor].price
    taken = {each: used[each] + _reserved(each, before, price) for each in applying}
    return rules.exhausted(applying, taken, _takes(part, price), now)


def _seen(
    ground: Ground, ctx: Context, processor: str, budgets: Iterable[Budget], now: float
) -> tuple[list[Task], dict[Budget, float]]:
    """What runs, and what was used: in this order, so that nothing is missed."""
    before = list(_before(ground, ctx, processor))
    return before, {each: _used(ground, each, processor, now) for each in budgets}


def _used(ground: Ground, budget: Budget, processor: str, now: float) -> float:
    rows = ground.ledger().used(tenant=budget.tenant, since=rules.began_at(budget.per, now))
    return sum(row.amount for row in rows if (row.meter, row.unit) == (processor, budget.unit))


def _reserved(budget: Budget, before: Iterable[Task], price: Price) -> float:
    payloads = (task.payload for task in before if budget.tenant in {None, task.tenant})
    parts = (Part.of(payload) for payload in payloads if isinstance(payload, dict))
    return sum(_takes(part, price).get(budget.unit, 0.0) for part in parts)


def _takes(part: Part, price: Price) -> dict[str, float]:
    per_page = {PAGES: 1, **price.per_page}
    return {CALLS: float(price.calls)} | {unit: float(count * part.size) for unit, count in per_page.items()}


def book(ctx: Context, part: Part, processor: Processor) -> None:
    """What a chunk's pages cost, once they were paid for; calls are booked as they are made."""
    for unit, amount in _takes(part, processor.price).items():
        if unit != CALLS:
            ctx.used(processor.name, unit, amount)


def _before(ground: Ground, ctx: Context, processor: str) -> Iterable[Task]:
    """The chunks of this processor that run, were claimed before this one, and are not booked yet."""
    query = Query(status=Status.RUNNING, kind=ground.pipeline(processor).kind(processor))
    running = list(whole(ground.ledger(), query))
    own = next((task for task in running if task.id == ctx.task_id), None)
    if own is None:
        return []
    before = [task for task in running if _place(task) < _place(own)]
    booked = _booked(ground, before, ground.processors[processor])
    return [task for task in before if task.id not in booked]


def _booked(ground: Ground, tasks: Iterable[Task], processor: Processor) -> set[str]:
    """Those for which the provider works since an earlier attempt, which booked it when it ended."""
    keys = {(task.tenant, task.id, task.claimed_at or 0.0): _entry_keys(task, processor) for task in tasks}
    booked = set()
    for tenant in {tenant for tenant, *_ in keys}:
        asked = [key for (of, *_), own in keys.items() if of == tenant for key in own]
        known = {each.key: each for each in ground.ledger().recall(tenant, asked)}
        for (of, task_id, claimed_at), own in keys.items():
            entries = [known[key] for key in own if of == tenant and key in known]
            if entries and entries[-1].created_at < claimed_at and not chunks.is_over(entries[-1].result_json):
                booked.add(task_id)
    return booked


def _entry_keys(task: Task, processor: Processor) -> list[str]:
    part = Part.of(task.payload) if isinstance(task.payload, dict) else None
    if part is None:
        return []
    key = part.key(processor, task.id)
    return [chunks.entry_key(key, n) for n in range(_ENTRIES)]


def _place(task: Task) -> tuple[float, str]:
    return (task.claimed_at or 0.0, task.id)
