"""A task queued at a child is started there once, or taken back and not started at all."""

import asyncio
from collections.abc import Callable

import pytest

from forebay.model.query import Query
from forebay.model.task import Status
from tests.engine.ground import Ground, run

Make = Callable[..., Ground]


@pytest.mark.slow
def test_what_waits_behind_a_slow_task_goes_to_another_child(ground: Make) -> None:
    here = ground()
    quick = here.app.submit_many("echo_blocking", [{"value": n} for n in range(400)])
    slow = here.app.submit("sleeps_blocking", {"seconds": 50}, priority=-1)
    after = here.app.submit_many("echo_blocking", [{"value": n} for n in range(400)], priority=-2)

    async def scenario() -> None:
        async with here.worker(concurrency=50, processes=2):
            await here.started(slow.id)
            await here.until(lambda: here.app.ledger.count().get(("echo_blocking", Status.COMPLETED)) == 800)
            assert here.task(slow.id).status is Status.RUNNING  # none of the 400 waited for its end
            here.app.cancel(slow.id)
            await here.ended(slow.id)

    run(scenario)
    for task in [*quick, *after]:
        assert here.outcomes(task.id) == ["completed"]
    assert here.outcomes(slow.id) == ["canceled"]


@pytest.mark.slow
def test_a_drain_takes_back_what_lies_at_a_child_unstarted(ground: Make) -> None:
    here = ground(drain_grace_s=0.2)
    here.app.submit_many("echo_blocking", [{"value": n} for n in range(300)])

    async def scenario() -> None:
        async with here.worker(concurrency=50, processes=2):
            await here.until(lambda: here.app.ledger.count().get(("echo_blocking", Status.COMPLETED)) == 300)
            here.app.submit_many("sleeps_blocking", [{"seconds": 0.05}] * 200)
            await here.until(lambda: len(here.notes) > 3)
            await asyncio.sleep(0.05)

    run(scenario)
    began = {line.split()[1] for line in here.notes if line.startswith("began")}
    counted = here.app.ledger.count()
    assert ("sleeps_blocking", Status.RUNNING) not in counted
    # Whatever began has an attempt in its history, and nothing else has one.
    with_history = set()
    for status in (Status.PENDING, Status.COMPLETED):
        page = here.app.ledger.list_tasks(Query(kind="sleeps_blocking", status=status, size=500))
        with_history |= {task.id for task in page.items if here.app.history(task.id)}
    assert with_history == began
    assert len(here.notes) == len(began)
