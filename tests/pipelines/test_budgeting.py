"""Budgets: a chunk that would use more than a day or month allows waits for the next, before its call."""

from __future__ import annotations

import pytest

from forebay.model.budget import Budget
from forebay.model.task import Status, Task, WaitReason
from tests.pipelines.ground import COMPLETED, Ground, pdf


def waiting(ground: Ground, job_id: str) -> list[Task]:
    return [task for task in ground.chunks(job_id) if task.status is Status.PENDING]


@pytest.mark.parametrize("unit", ["pages", "calls"])
def test_a_budget_stops_before_the_call_however_many_start_at_once(ground: Ground, unit: str) -> None:
    ground.register(max_pages=1)
    ground.app.budget(Budget(unit=unit, most=3))
    job_id = ground.submit(pdf(8))
    ground.work_until(lambda: len(waiting(ground, job_id)) == 5)
    assert len(ground.calls) == 3
    held = waiting(ground, job_id)
    assert {task.wait_reason for task in held} == {WaitReason.BUDGET}
    assert {task.retry_count for task in held} == {0}
    (reason, *_) = ground.app.standing(held[0].id).reasons
    assert reason.code == "budget"
    assert f"the budget of 3 {unit} a day is used up" in reason.text
    assert ground.job(job_id).status is Status.RUNNING


def test_the_next_day_they_go_on(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.register(max_pages=1)
    ground.app.budget(Budget(unit="pages", most=2))
    monkeypatch.setattr("forebay.rules.budgets.ends_at", lambda _period, now: now + 0.5)
    began_at = [0.0]
    monkeypatch.setattr("forebay.rules.budgets.began_at", lambda _period, _now: began_at[0])
    job_id = ground.submit(pdf(3))
    ground.work_until(lambda: len(waiting(ground, job_id)) == 1)
    assert len(ground.calls) == 2
    began_at[0] = 1e10
    ground.work()
    assert ground.job(job_id).status is COMPLETED
    assert len(ground.calls) == 3


def test_what_is_stored_needs_no_budget(ground: Ground) -> None:
    ground.register(max_pages=1)
    first = ground.run(pdf(3))
    ground.app.budget(Budget(unit="pages", most=0))
    assert ground.run(pdf(3), allow_holes=True).status is COMPLETED
    assert len(ground.calls) == first.chunk_count


def test_another_tenants_budget_is_not_used_up(ground: Ground) -> None:
    ground.register(max_pages=1)
    ground.app.budget(Budget(unit="pages", most=1, tenant="acme"))
    job_id = ground.submit(pdf(2), tenant="acme")
    ground.work_until(lambda: len(waiting(ground, job_id)) == 1)
    other = ground.submit(pdf(2))
    ground.work_until(lambda: ground.job(other).status is COMPLETED)
    assert len(ground.calls) == 3
