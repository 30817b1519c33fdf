"""Nothing is begun by a worker that cannot be sure any more whose the task is."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forebay.errors import StoreUnreachable
from forebay.model.payload import MAX_BYTES
from forebay.model.task import Status
from forebay.observe import subscribe
from tests.engine.ground import Ground, run

LEASED = str(Path(__file__).with_name("leased.py"))
LEASE_S = 1.0
IN_BLOB = {"text": "x" * MAX_BYTES}
Make = Callable[..., Ground]


@pytest.fixture
def here(ground: Make) -> Ground:
    made = ground(handlers=LEASED, lease_s=LEASE_S)
    made.app.limits.tell([])
    return made


@contextmanager
def held(here: Ground) -> Iterator[None]:
    """Blobs are not read, and calls not answered."""
    sign = here.folder / "held"
    sign.touch()
    try:
        yield
    finally:
        sign.unlink()


@contextmanager
def no_answer(here: Ground) -> Iterator[None]:
    """The ledger renews nothing."""

    def fail(*_: object, **__: object) -> None:
        raise StoreUnreachable("The ledger does not answer.", remedy="Wait.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(here.app.ledger, "exchange", fail)
        patch.setattr(here.app.ledger, "renew", fail)
        yield


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["told", "told_blocking", "told_limited"])
def test_no_handler_begins_after_the_lease_though_its_payload_came_late(here: Ground, kind: str) -> None:
    async def scenario() -> str:
        async with here.worker():
            with held(here):
                task = here.app.submit(kind, IN_BLOB)
                await here.until(lambda: "reads" in here.notes)
                lost = no_answer(here)
                lost.__enter__()
                await asyncio.sleep(LEASE_S + 0.2)
            await asyncio.sleep(0.5)
            assert here.notes == ["reads"]
            lost.__exit__(None, None, None)
            await here.ended(task.id)
            return task.id

    task_id = run(scenario)
    assert here.notes == ["reads", "reads", "begins"]
    first, *_, last = here.outcomes(task_id)
    assert (first in {"released", "lost"}, last) == (True, "completed")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["told", "told_blocking", "told_limited"])
def test_a_payload_may_take_longer_than_a_lease_that_is_renewed(here: Ground, kind: str) -> None:
    async def scenario() -> str:
        async with here.worker():
            with held(here):
                task = here.app.submit(kind, IN_BLOB)
                await here.until(lambda: "reads" in here.notes)
                await asyncio.sleep(2.5 * LEASE_S)  # longer than a grant of a limit without windows may wait
            await here.ended(task.id)
            return task.id

    heard: list[str] = []
    stop = subscribe(lambda name, _: heard.append(name))
    assert here.outcomes(run(scenario)) == ["completed"]
    stop()
    assert here.notes == ["reads", "begins"]
    # The slot that it held meanwhile counts from now on.
    assert ("late_start" in heard) == (kind == "told_limited")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["calls", "calls_blocking"])
def test_a_handler_gets_no_further_slot_after_the_lease(here: Ground, kind: str) -> None:
    async def scenario() -> str:
        async with here.worker():
            with held(here):
                task = here.app.submit(kind)
                await here.until(lambda: "begins" in here.notes)
                lost = no_answer(here)
                lost.__enter__()
                await asyncio.sleep(LEASE_S + 0.2)
            await asyncio.sleep(0.5)
            assert here.notes == ["begins"]
            lost.__exit__(None, None, None)
            await here.ended(task.id)
            return task.id

    assert here.task(run(scenario)).status is Status.COMPLETED


@pytest.mark.slow
def test_a_slot_that_came_after_the_lease_goes_to_others(here: Ground) -> None:
    """It stood in line when the ledger fell silent; the slot is given back at once, and asked for again later."""
    limiter = here.app.limiter

    async def scenario() -> str:
        async with here.worker():
            with limiter.slot("api") as other:
                task = here.app.submit("calls")
                await here.until(lambda: here.task(task.id).status is Status.RUNNING)
                lost = no_answer(here)
                lost.__enter__()
                await asyncio.sleep(LEASE_S + 0.2)
                other.release()
                await here.until(lambda: limiter.usage("api").in_flight == 0)
            assert here.notes == []
            lost.__exit__(None, None, None)
            await here.ended(task.id)
            return task.id

    assert here.task(run(scenario)).status is Status.COMPLETED
