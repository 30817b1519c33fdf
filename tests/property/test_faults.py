"""Work goes on behind a bad line: whoever repeats by number does each task once, whoever does not is found out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from forebay import ids
from forebay.clock import ManualClock
from forebay.errors import MaybeApplied, StoreUnreachable
from forebay.model.exchange import Session, Settle, Want
from forebay.model.outcome import Completed
from forebay.model.task import NewTask, Status
from forebay.rules.settlement import decide
from forebay.stores.base import Ledger
from forebay.stores.memory.ledger import MemoryLedger
from forebay.testing.faults import FaultyLedger, faulty
from forebay.testing.invariants import all_tasks, problems
from forebay.testing.workers import lone

T = TypeVar("T")
TASKS = 40
ROUNDS = 60


def _until_answered(call: Callable[[], T]) -> T:
    for _ in range(100):
        try:
            return call()
        except (StoreUnreachable, MaybeApplied):
            continue
    raise AssertionError("a hundred calls were not answered")


class Driver:
    """Submits, claims, runs and settles; every call is repeated with the same ids until it is answered."""

    def __init__(self, ledger: Ledger, clock: ManualClock) -> None:
        self.ledger = ledger
        self.clock = clock
        self.ran: Counter[object] = Counter()
        self.session = Session(id=ids.random_id(), worker="driver", lease_s=1e6)
        self.n = 0

    def run(self) -> None:
        _until_answered(lambda: self.ledger.open_session(self.session))
        self.submit([lone(number) for number in range(TASKS)])
        settles: list[Settle] = []
        for _ in range(ROUNDS):
            settles = [*self.exchange(settles)]

    def submit(self, batch: list[NewTask]) -> None:
        _until_answered(lambda: self.ledger.submit(batch))

    def exchange(self, settles: list[Settle]) -> Iterator[Settle]:
        self.n += 1
        n = self.n
        reply = _until_answered(
            lambda: self.ledger.exchange(self.session.id, n, settles=settles, wants=[Want("work", 3)])
        )
        for task in reply.claims:
            self.ran[task.payload] += 1
            yield decide(task, Completed(), now=self.clock.now(), jitter=0)


class ClaimsAnew(Driver):
    """Takes the next number after a lost reply: what the lost one claimed is never run."""

    def exchange(self, settles: list[Settle]) -> Iterator[Settle]:
        try:
            yield from self._once(settles)
        except (StoreUnreachable, MaybeApplied):
            yield from settles

    def _once(self, settles: list[Settle]) -> Iterator[Settle]:
        self.n += 1
        reply = self.ledger.exchange(self.session.id, self.n, settles=settles, wants=[Want("work", 3)])
        for task in reply.claims:
            self.ran[task.payload] += 1
            yield decide(task, Completed(), now=self.clock.now(), jitter=0)


class SubmitsAnew(Driver):
    """Makes a new task of what may be stored already."""

    def submit(self, batch: list[NewTask]) -> None:
        _until_answered(lambda: self.ledger.submit([lone(new.payload) for new in batch]))


def _wrong(kind: type[Driver], *, random_state: int) -> tuple[list[str], FaultyLedger]:
    """What is wrong after a driver worked behind a bad line, judged on the ledger itself."""
    clock = ManualClock()
    ledger = MemoryLedger(clock)
    line = faulty(
        ledger, random_state=random_state, error_before=0.2, delay_s=0.5, applied_but_timeout=0.3, sleep=clock.advance
    )
    driver = kind(line, clock)
    driver.run()
    wrong = [f"{number} ran {driver.ran[number]} times" for number in range(TASKS) if driver.ran[number] != 1]
    tasks = all_tasks(ledger)
    if len(tasks) != TASKS:
        wrong.append(f"{len(tasks)} tasks are stored")
    wrong += [f"{task.id} is {task.status}" for task in tasks if task.status is not Status.COMPLETED]
    wrong += [f"{task.id} has {n} attempts" for task in tasks if (n := len(ledger.history(task.id))) != 1]
    return wrong + problems(ledger), line


@pytest.mark.parametrize("random_state", range(10))
def test_work_is_done_once_by_a_driver_that_repeats_by_number(random_state: int) -> None:
    wrong, line = _wrong(Driver, random_state=random_state)
    assert wrong == []
    assert line.fired["error_before", "exchange"] > 0
    assert line.fired["applied_but_timeout", "exchange"] > 0
    assert line.fired["delay", "exchange"] > 0


@pytest.mark.parametrize("careless", [ClaimsAnew, SubmitsAnew])
def test_a_driver_that_does_not_repeat_is_found_out(careless: type[Driver]) -> None:
    assert any(_wrong(careless, random_state=random_state)[0] for random_state in range(5))


def test_faults_are_the_same_for_the_same_random_state() -> None:
    fired = [_wrong(Driver, random_state=7)[1].fired for _ in range(2)]
    assert fired[0] == fired[1]
    assert fired[0] != _wrong(Driver, random_state=8)[1].fired


def test_an_error_before_the_call_leaves_nothing_and_a_timeout_after_it_leaves_all() -> None:
    before, after = MemoryLedger(), MemoryLedger()
    new = lone(1)
    with pytest.raises(StoreUnreachable):
        faulty(before, error_before=1.0).submit([new])
    with pytest.raises(MaybeApplied):
        faulty(after, applied_but_timeout=1.0).submit([new])
    assert before.get(new.id) is None
    assert after.get(new.id) is not None


def test_a_delay_is_waited_for_before_the_call() -> None:
    waited: list[float] = []
    ledger = faulty(MemoryLedger(), delay_s=3.0, sleep=waited.append)
    for _ in range(20):
        ledger.count()
    assert len(waited) == 20
    assert 0 < min(waited) < max(waited) < 3
