"""Handlers that fork, leave threads behind or come too late harm nobody but themselves."""

import time
from collections.abc import Callable

import pytest

from tests.engine.ground import Ground, run

Make = Callable[..., Ground]


@pytest.mark.slow
def test_a_handler_that_forks_answers_once_and_for_itself(ground: Make) -> None:
    here = ground()
    tasks = here.app.submit_many("forks", [{"number": n} for n in range(12)])

    async def scenario() -> None:
        async with here.worker(processes=1):
            for task in tasks:
                await here.ended(task.id)

    run(scenario)
    assert [here.task(task.id).result for task in tasks] == [f"result of {n}" for n in range(12)]
    assert all(here.outcomes(task.id) == ["completed"] for task in tasks)
    # The fork took no task of its own.
    assert len(here.notes) == 12
    assert len({line.split()[2] for line in here.notes}) == 1


@pytest.mark.slow
def test_what_a_thread_says_after_its_task_has_ended_is_booked_on_nobody(ground: Make) -> None:
    here = ground()
    first = here.app.submit("leaves_a_thread")

    async def scenario() -> str:
        async with here.worker(processes=1):
            await here.ended(first.id)
            second = here.app.submit("sleeps_blocking", {"seconds": 1.5})
            await here.ended(second.id)
            return second.id

    second = run(scenario)
    assert "spoke too late" in here.notes
    assert here.app.ledger.used() == []
    assert here.task(second).result == "slept"


def test_a_blocking_handler_whose_deadline_is_over_is_not_begun(ground: Make) -> None:
    here = ground()
    task = here.app.submit("sleeps_blocking", {"seconds": 0}, deadline_at=time.time() - 60)

    async def scenario() -> None:
        async with here.worker():
            await here.ended(task.id)

    assert here.app.why(task.id)[0].code == "deadline"
    run(scenario)
    assert here.task(task.id).error_class == "deadline"
    assert here.notes == []
