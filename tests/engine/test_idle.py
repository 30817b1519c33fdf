"""A worker that is to end when nothing is left waits for all that is open, and for nothing else."""

import asyncio
import time
from collections.abc import Callable

import pytest

from forebay.app.working import awork, when_idle
from forebay.model.exchange import Session, Want
from forebay.model.task import Status
from tests.engine.ground import HANDLERS, Ground, run

Make = Callable[..., Ground]


async def _work(here: Ground) -> None:
    await awork(here.app, when_idle(here.app), target=f"{HANDLERS}:app")


def test_it_ends_at_once_when_there_is_nothing(ground: Make) -> None:
    here = ground()
    foreign = here.app.submit("of_another_team")
    began = time.monotonic()
    run(lambda: _work(here))
    assert time.monotonic() - began < 30
    assert here.task(foreign.id).status is Status.PENDING
    assert here.app.ledger.sessions() == []


def test_it_waits_for_what_comes_later_and_for_the_merge(ground: Make) -> None:
    here = ground()
    later = here.app.submit("echo", {"value": 1}, delay_s=0.7)
    flaky = here.app.submit("flaky", {"times": 1})
    job = here.app.start("words", {"text": "one\ntwo words"})
    run(lambda: _work(here))
    assert here.task(later.id).status is Status.COMPLETED
    assert here.outcomes(flaky.id) == ["retried", "completed"]
    assert here.app.result(job.id, timeout_s=0) == {"counts": [1, 2], "characters": 13}


@pytest.mark.slow
def test_it_waits_for_what_runs_elsewhere_and_takes_it_over(ground: Make) -> None:
    here = ground()
    task = here.app.submit("echo", {"value": 1})
    other = Session(id="a" * 26, worker="other", lease_s=1)
    here.app.ledger.open_session(other)
    assert here.app.ledger.exchange(other.id, 1, wants=[Want("echo", 1)]).claims

    async def scenario() -> None:
        async with asyncio.timeout(10):
            await _work(here)

    run(scenario)
    assert here.outcomes(task.id) == ["lost", "completed"]
