"""Budgets: a chunk that would use more than a day or month allows waits for the next, before its call."""

from __future__ import annotations

import asyncio
import threading

import pytest

from forebay import Chunk, Context, Page, Reschedule
from forebay.model.budget import Budget
from forebay.model.task import Status, Task, WaitReason
from forebay.processors.function import FunctionProcessor
from tests.pipelines.ground import COMPLETED, Ground, pdf, texts


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


@pytest.mark.slow
def test_a_budget_stops_before_the_call_though_more_run_than_fit_on_a_page(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forebay.pipelines.listing.MAX_PAGE", 1)
    ground.register(max_pages=1)
    ground.app.budget(Budget(unit="pages", most=3))
    job_id = ground.submit(pdf(8))
    ground.work_until(lambda: len(waiting(ground, job_id)) == 5)
    assert len(ground.calls) == 3


def test_what_a_provider_works_on_is_booked_once_and_not_kept_free_again_while_it_is_asked_for(ground: Ground) -> None:
    polled, second_begun = threading.Event(), threading.Event()
    submitted: list[str] = []

    async def read(ctx: Context, chunk: Chunk) -> list[Page]:
        job = chunk.under_way.job
        if job is None:
            (text,) = texts(chunk)
            await chunk.under_way.begin({"text": text})
            submitted.append(text)
            if text == "Leaf 1":
                second_begun.set()
            raise Reschedule("begun", delay_s=0.01)
        if job["text"] == "Page 1":
            polled.set()
            await asyncio.to_thread(second_begun.wait, 15)
        return [Page.of_text(str(job["text"]), processor="noted", version="1")]

    ground.app.documents.pipeline.add(FunctionProcessor(name="noted", function=read, max_pages=1))
    ground.app.budget(Budget(unit="pages", most=2))
    first = ground.submit(pdf(1))
    jobs = [first]

    def done() -> bool:
        if polled.is_set() and len(jobs) == 1:
            jobs.append(ground.submit(pdf(1, "Leaf {}")))
        chunks = [task for job_id in jobs for task in ground.chunks(job_id)]
        return any(task.wait_reason is WaitReason.BUDGET for task in chunks) or (
            len(jobs) == 2 and all(ground.job(job_id).status.terminal for job_id in jobs)
        )

    ground.work_until(done)
    assert [ground.job(job_id).status for job_id in jobs] == [COMPLETED, COMPLETED]
    assert submitted == ["Page 1", "Leaf 1"]


def test_what_was_just_begun_is_kept_free_until_it_is_booked(ground: Ground) -> None:
    begun, go_on = threading.Event(), threading.Event()
    submitted: list[int] = []

    async def read(ctx: Context, chunk: Chunk) -> list[Page]:
        await chunk.under_way.begin({"page": chunk.page_start})
        submitted.append(chunk.page_start)
        begun.set()
        await asyncio.to_thread(go_on.wait, 15)
        return [Page.of_text("x", processor="noted", version="1")]

    ground.app.documents.pipeline.add(FunctionProcessor(name="noted", function=read, max_pages=1))
    ground.app.budget(Budget(unit="pages", most=1))
    jobs = [ground.submit(pdf(1))]

    def held() -> bool:
        if begun.is_set() and len(jobs) == 1:
            jobs.append(ground.submit(pdf(1, "Leaf {}")))
        later = ground.chunks(jobs[-1]) if len(jobs) == 2 else []
        if any(task.wait_reason is WaitReason.BUDGET for task in later) or len(submitted) > 1:
            go_on.set()
        return go_on.is_set() and ground.job(jobs[0]).status is COMPLETED

    ground.work_until(held)
    assert submitted == [1]


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_is_stored_needs_no_budget(ground: Ground) -> None:
    ground.register(max_pages=1)
    first = ground.run(pdf(3))
    ground.app.budget(Budget(unit="pages", most=0))
    assert ground.run(pdf(3), allow_holes=True).status is COMPLETED
    assert len(ground.calls) == first.chunk_count


@pytest.mark.slow
def test_another_tenants_budget_is_not_used_up(ground: Ground) -> None:
    ground.register(max_pages=1)
    ground.app.budget(Budget(unit="pages", most=1, tenant="acme"))
    job_id = ground.submit(pdf(2), tenant="acme")
    ground.work_until(lambda: len(waiting(ground, job_id)) == 1)
    other = ground.submit(pdf(2))
    ground.work_until(lambda: ground.job(other).status is COMPLETED)
    assert len(ground.calls) == 3
