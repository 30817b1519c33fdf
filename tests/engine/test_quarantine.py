"""A task that may end its worker runs alone."""

import threading
import time
from collections.abc import Callable

import pytest

from forebay.engine.quarantine import Quarantine
from forebay.model.exchange import Want
from forebay.model.task import Status
from tests.engine.ground import TASK, Ground, run

Make = Callable[..., Ground]
HARMLESS = TASK._replace(lost_count=0)
SUSPECT = TASK._replace(id="b" * 26, kind="bad", lost_count=3)
WANTS = [Want("kind", 5), Want("bad", 5)]


def counts(wants: list[Want]) -> list[int]:
    return [want.count for want in wants]


def test_without_a_suspect_nothing_changes() -> None:
    quarantine = Quarantine(30)
    assert quarantine.sorted([HARMLESS, HARMLESS], running=True) == ([HARMLESS, HARMLESS], [])
    assert quarantine.narrowed(WANTS, running=True) == WANTS
    assert not quarantine.closed(running=True)


def test_a_suspect_in_company_goes_back_and_is_asked_for_when_the_worker_is_empty() -> None:
    quarantine = Quarantine(30)
    assert quarantine.sorted([HARMLESS, SUSPECT], running=False) == ([HARMLESS], [SUSPECT])
    assert quarantine.closed(running=True)
    assert counts(quarantine.narrowed(WANTS, running=True)) == [0, 0]
    assert counts(quarantine.narrowed(WANTS, running=False)) == [0, 1]
    assert quarantine.sorted([SUSPECT], running=False) == ([SUSPECT], [])
    assert counts(quarantine.narrowed(WANTS, running=True)) == [0, 0]


def test_it_ends_when_no_suspect_is_left() -> None:
    for left in ([], [HARMLESS]):
        quarantine = Quarantine(30)
        quarantine.sorted([HARMLESS, SUSPECT], running=False)
        quarantine.sorted(left, running=False)
        assert quarantine.narrowed(WANTS, running=False) == WANTS


@pytest.mark.slow
def test_the_neighbours_of_a_task_that_wedges_its_worker_again_and_again_are_not_poisoned(ground: Make) -> None:
    here = ground(lease_s=1)
    bad = here.app.submit("always_wedges")
    good = here.app.submit_many("echo", [{"value": n} for n in range(4)], priority=-1)
    done = threading.Event()

    def others() -> None:
        while not done.is_set():
            here.app.ledger.rescue()
            time.sleep(0.05)

    async def scenario() -> None:
        async with here.worker():
            await here.ended(bad.id, within_s=45)
            for task in good:
                await here.ended(task.id)

    looking = threading.Thread(target=others)
    looking.start()
    try:
        run(scenario)
    finally:
        done.set()
        looking.join(10)
    assert here.task(bad.id).error_class == "poison"
    assert all(here.task(task.id).status is Status.COMPLETED for task in good)


def test_slots_are_wished_for_only_for_what_may_be_claimed() -> None:
    quarantine = Quarantine(30.0)
    assert quarantine.standing({"kind", "bad"}, running=True) == {"kind", "bad"}
    quarantine.sorted([HARMLESS, SUSPECT], running=True)
    assert quarantine.standing({"kind", "bad"}, running=True) == set()
    assert quarantine.standing({"kind", "bad"}, running=False) == {"bad"}
