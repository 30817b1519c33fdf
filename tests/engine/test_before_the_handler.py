"""What happens between the claim of a task and the first step of its handler: a payload is read, a slot renewed."""

import asyncio
import gc
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.engine import inline
from forebay.engine.attempt import Why
from forebay.engine.blocking import BlockingAttempt
from forebay.engine.inline import InlineAttempt
from forebay.engine.slots import Calls
from forebay.errors import Conflict
from forebay.limits import Limit, Limiter, Slot
from forebay.model.payload import MAX_BYTES
from forebay.model.task import Status
from tests.engine.ground import Ground, run
from tests.limits.ground import until
from tests.processors.provider import Waits

LEASED = str(Path(__file__).with_name("leased.py"))
IN_BLOB = {"text": "x" * MAX_BYTES}


@pytest.fixture
def here(ground: Callable[..., Ground]) -> Ground:
    made = ground(handlers=LEASED)
    made.app.limits.tell([])
    return made


@pytest.mark.slow
def test_a_payload_that_takes_its_time_is_read_once_though_all_places_are_taken(here: Ground) -> None:
    held = here.folder / "held"
    held.touch()

    async def scenario() -> list[str]:
        async with here.worker(concurrency=1) as worker:
            task = here.app.submit("told", IN_BLOB)
            await here.until(lambda: "reads" in here.notes)
            await asyncio.sleep(2.5)  # longer than anybody waits in hand for a place
            held.unlink()
            await here.ended(task.id)
            assert worker.handed_back_count == 0
            return here.outcomes(task.id)

    assert run(scenario) == ["completed"]
    assert here.notes == ["reads", "begins"]


def test_an_attempt_that_is_stopped_before_its_first_step_is_over_at_once(
    here: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline, "_ABANDON_S", 3600.0)
    stopped: list[InlineAttempt] = []
    go = InlineAttempt.go

    def stop_first(self: InlineAttempt) -> None:
        go(self)
        if not stopped:
            stopped.append(self)
            self.stop(Why.DRAIN)

    monkeypatch.setattr(InlineAttempt, "go", stop_first)

    async def scenario() -> None:
        async with here.worker():
            await here.ended(here.app.submit("told", {"text": ""}).id)

    run(scenario)
    assert here.notes == ["begins"]


def test_a_blocking_attempt_that_is_stopped_while_its_slot_is_asked_for_anew_wants_it_no_more(
    here: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[str] = []
    entered: list[BlockingAttempt] = []
    enter, astart = BlockingAttempt._enter, Slot.astart

    def remember(self: BlockingAttempt) -> None:
        entered.append(self)
        enter(self)

    async def wait_first(self: Slot) -> None:
        if ends:
            await astart(self)
            return
        try:
            ends.append("waits")
            asyncio.get_running_loop().call_soon(entered[0].stop, Why.WAITED)
            await asyncio.Event().wait()
        finally:
            ends.append("cancelled")

    monkeypatch.setattr(BlockingAttempt, "_enter", remember)
    monkeypatch.setattr(Slot, "astart", wait_first)

    async def scenario() -> None:
        async with here.worker():
            await here.ended(here.app.submit("told_limited", {"text": ""}).id)
            assert ends == ["waits", "cancelled"]

    gc.disable()  # which would find the attempt, and the slot with it, some time later
    try:
        run(scenario)
    finally:
        gc.enable()


@pytest.mark.slow
def test_blobs_that_are_away_do_not_open_the_breaker_of_a_provider(here: Ground) -> None:
    """No call was made: a blocking handler did not begin."""
    (here.folder / "away").touch()

    async def scenario() -> None:
        async with here.worker():
            tasks = here.app.submit_many("told_limited", [IN_BLOB | {"n": n} for n in range(7)], max_retries=0)
            for task in tasks:
                await here.ended(task.id)
            assert here.task(tasks[0].id).status is Status.FAILED

    run(scenario)
    assert "begins" not in here.notes
    usage = here.app.limiter.usage("api")
    assert (usage.level, usage.in_flight) == (0, 0)


def test_a_slot_that_comes_when_the_attempt_is_over_lets_nobody_in() -> None:
    async def scenario(limiter: Limiter) -> None:
        limiter.define(Limit("api", in_flight=1))
        calls = Calls(lambda: limiter, Waits(), limit="api", held=False, label="")
        async with limiter.slot("api"):
            asked = asyncio.create_task(calls.enter(None, None, 5.0))
            await asyncio.to_thread(until, lambda: limiter.usage("api").waiting)
            calls.close(None, None, sent=True)
        with pytest.raises(Conflict):
            await asked
        await asyncio.to_thread(until, lambda: not limiter.usage("api").in_flight)

    with Limiter("memory://") as limiter:
        asyncio.run(scenario(limiter))


def test_a_worker_ends_though_all_threads_of_the_loop_are_stuck(here: Ground) -> None:
    """Such as in handlers that call asyncio.to_thread with something that hangs."""

    async def scenario() -> None:
        held = here.folder / "held"
        held.touch()
        stuck: list[asyncio.Future[None]] = []
        try:
            async with asyncio.timeout(20), here.worker() as worker:
                await here.ended(here.app.submit("told", {"text": ""}).id)
                loop = asyncio.get_running_loop()
                stuck += [loop.run_in_executor(None, _wait, held) for _ in range(64)]
                worker.drain()
        finally:
            held.unlink()
            await asyncio.gather(*stuck)

    run(scenario)


def _wait(held: Path) -> None:
    while held.exists():
        time.sleep(0.01)
