"""Holds back a chunk whose call would break a budget: what was used counts, and what is under way before it."""

from __future__ import annotations

import time
from collections.abc import Iterable

from forebay.engine.context import Context
from forebay.model.budget import Budget
from forebay.model.query import MAX_PAGE, Query
from forebay.model.task import Status, Task
from forebay.pipelines.ground import Ground, chunk_kind
from forebay.pipelines.part import Part
from forebay.rules import budgets as rules
from forebay.rules.budgets import Exhausted

CALLS = "calls"
PAGES = "pages"
_LOOKS = 5


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
    taken = {each: used[each] + _reserved(each, before) for each in applying}
    return rules.exhausted(applying, taken, {CALLS: 1.0, PAGES: float(part.size)}, now)


def _seen(
    ground: Ground, ctx: Context, processor: str, budgets: Iterable[Budget], now: float
) -> tuple[list[Task], dict[Budget, float]]:
    """What runs, and what was used: in this order, so that nothing is missed."""
    before = list(_before(ground, ctx, processor))
    return before, {each: _used(ground, each, processor, now) for each in budgets}


def _used(ground: Ground, budget: Budget, processor: str, now: float) -> float:
    rows = ground.ledger().used(tenant=budget.tenant, since=rules.began_at(budget.per, now))
    return sum(row.amount for row in rows if (row.meter, row.unit) == (processor, budget.unit))


def _reserved(budget: Budget, before: Iterable[Task]) -> float:
    tasks = [task for task in before if budget.tenant in {None, task.tenant}]
    if budget.unit == CALLS:
        return float(len(tasks))
    payloads = (task.payload for task in tasks)
    sizes = (Part.of(payload).size for payload in payloads if isinstance(payload, dict))
    return float(sum(sizes)) if budget.unit == PAGES else 0.0


def _before(ground: Ground, ctx: Context, processor: str) -> Iterable[Task]:
    """The chunks of this processor that run and were claimed before this one."""
    query = Query(status=Status.RUNNING, kind=chunk_kind(processor), size=MAX_PAGE)
    running = [ground.ledger().get(task.id) for task in ground.ledger().list_tasks(query).items]
    own = next((task for task in running if task is not None and task.id == ctx.task_id), None)
    if own is None:
        return []
    return [task for task in running if task is not None and _place(task) < _place(own)]


def _place(task: Task) -> tuple[float, str]:
    return (task.claimed_at or 0.0, task.id)
