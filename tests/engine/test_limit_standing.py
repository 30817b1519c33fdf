"""What is seen of tasks while their API refuses them: reason, level, time, and the metrics of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay.model.task import WaitReason
from forebay.observe import subscribe
from forebay.observe.metrics import Metrics
from forebay.rules.standing import Standing
from tests.engine.ground import Ground, run

LIMITED = str(Path(__file__).with_name("limited.py"))


@pytest.fixture
def here(ground: Callable[..., Ground]) -> Ground:
    made = ground(handlers=LIMITED)
    made.app.limits.tell([])
    return made


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    made = Metrics()
    end = subscribe(made)
    yield made
    end()


def test_refusals_are_seen_while_they_last_and_counted(here: Ground, metrics: Metrics) -> None:
    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    here.app.limiter.configure("api", cooldown_s=(30.0,))
    first, _ = here.app.submit_many("answers", [{"error_class": "rate_limited"}] * 2)
    seen: list[Standing] = []

    async def scenario() -> None:
        async with here.worker(concurrency=2):
            await here.until(lambda: value("forebay_tasks_rescheduled_total", kind="answers") == 2)
            await here.until(lambda: here.app.limiter.usage("api").cooldown)
            seen.extend(here.app.standing(each) for each in (first.id, here.app.submit("call").id))

    run(scenario)
    refused, behind = seen
    assert refused.wait_reason is WaitReason.RESCHEDULE
    assert (refused.limit, refused.backoff_level, refused.more_workers_help) == ("api", 1, False)
    assert 0 < refused.backoff_s <= (refused.eta_s or 0)
    assert behind.wait_reason is WaitReason.COOLDOWN
    assert (behind.backoff_level, behind.position, behind.binds) == (1, 1, ("cooldown of api",))
    assert behind.cooldown_until is not None
    assert behind.eta_at == pytest.approx(behind.cooldown_until)

    assert value("forebay_tasks_rescheduled_total", kind="answers") == 2
    assert value("forebay_reschedule_delay_seconds_count", kind="answers") == 2
    assert value("forebay_rate_limit_events_total", limit="api", code="429") == 2
    assert value("forebay_limit_cooldown_seconds_total", limit="api") in {30, 60}
    assert value("forebay_tasks_settled_total", kind="answers", outcome="retried") is None


def test_workers_that_stand_in_line_are_not_counted_beside_the_tasks_they_stand_for(here: Ground) -> None:
    app = here.app
    seen: list[Standing] = []

    async def scenario() -> None:
        with app.limiter.slot("api"), app.limiter.slot("api", timeout_s=0):
            tasks = app.submit_many("call", [{}] * 20)
            async with here.worker(concurrency=8):
                await here.until(lambda: app.limiter.usage("api").waiting >= 8)
                seen.extend(app.standing(task.id) for task in tasks)

    run(scenario)
    waiting = {each.position: each.eta_s for each in seen if each.position is not None}
    first, last = waiting[min(waiting)], waiting[max(waiting)]
    assert first is not None
    assert last is not None
    # No call has ended, so each is taken to last its minute, two at a time: one may be in a worker's hand.
    assert first <= 60.0
    assert 540.0 <= last <= 600.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["call", "call_blocking", "several"])
@pytest.mark.parametrize("before", [0, 3])
def test_a_task_under_a_paused_limit_is_not_claimed_and_says_so_at_once(here: Ground, kind: str, before: int) -> None:
    """Also by a worker whose slots came quickly a while ago."""
    app = here.app
    seen: list[Standing] = []

    async def scenario() -> None:
        async with here.worker(concurrency=1):
            await here.until(app.ledger.sessions)
            for task in app.submit_many(kind, [{}] * before):
                await here.ended(task.id)
            await asyncio.sleep(1.1 if before else 0.0)  # as long as what was learned of the slots counts
            app.limiter.pause("api", for_s=40)
            task = app.submit(kind)
            seen.append(app.standing(task.id))
            await here.until(lambda: app.limiter.usage("api").waiting)
            seen.append(app.standing(task.id))
            app.limiter.resume("api")
            await here.ended(task.id)
            assert here.task(task.id).claim_count == 1

    run(scenario)
    for each in seen:
        assert each.wait_reason is WaitReason.PAUSED
        assert each.eta_s is not None
        assert 30 < each.eta_s <= 41


def test_a_task_that_cannot_have_a_slot_is_not_claimed_and_says_what_binds(here: Ground) -> None:
    app = here.app
    seen: list[Standing] = []

    async def scenario() -> None:
        async with here.worker(concurrency=1):
            with app.limiter.slot("api"), app.limiter.slot("api", timeout_s=0):
                task = app.submit("several", {"times": 1})
                await here.until(lambda: app.limiter.usage("api").waiting)
                seen.append(app.standing(task.id))
            await here.ended(task.id)

    run(scenario)
    assert [reason.code for reason in seen[0].reasons] == ["limit"]
    assert (seen[0].wait_reason, seen[0].binds) == (WaitReason.LIMIT, ("in_flight 2/2",))
