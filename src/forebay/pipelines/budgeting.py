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


def held_back(ground: Ground, ctx: Context, part: Part) -> Exhausted | None:
    """Blocking. Of chunks that start at the same moment the one that was claimed first goes first."""
    processor = part.order.processor
    applying = rules.applying(ground.budgets(), processor, ctx.tenant)
    if not applying:
        return None
    now = time.time()
    before = list(_before(ground, ctx, processor))
    used = {each: _used(ground, each, processor, now) + _reserved(each, before) for each in applying}
    return rules.exhausted(applying, used, {CALLS: 1.0, PAGES: float(part.size)}, now)


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
