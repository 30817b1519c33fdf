"""Promises of a rescue: what a dead or stuck worker held returns, and what kills workers is put aside."""

from __future__ import annotations

from itertools import chain

from forebay.clock import ManualClock
from forebay.model.exchange import Hold
from forebay.model.outcome import Failed
from forebay.model.task import Status
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, everything, job_row, put, stored
from forebay.testing.invariants import all_tasks
from forebay.testing.workers import Worker, action, job_of, lone


class RescuePromises(LedgerCase):
    def test_the_tasks_of_a_session_that_ran_out_return(
        self, ledger: Ledger, clock: ManualClock, worker: Worker, other: Worker
    ) -> None:
        put(ledger, *(lone(n) for n in range(3)))
        mine = worker.claim(2)
        kept = other.take()
        clock.advance(14.5)
        assert ledger.rescue() == []
        clock.advance(0.5)
        assert sorted(ledger.rescue()) == sorted(task.id for task in mine)
        for task in mine:
            back = stored(ledger, task.id)
            assert (back.status, back.lost_count, back.retry_count) == (Status.PENDING, 1, 0)
        assert ledger.mine(worker.id) == []
        assert ledger.mine(other.id) == [kept]

    def test_an_overdue_attempt_returns_though_its_session_lives(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, lone("short", timeout_s=60), lone("long", timeout_s=600))
        short, long = worker.claim(2, grace_s=30)
        clock.advance(89)
        ledger.renew(worker.id)
        assert ledger.rescue() == []
        clock.advance(1)
        ledger.renew(worker.id)
        assert ledger.rescue() == [short.id]
        assert ledger.mine(worker.id) == [long]

    def test_a_hold_gives_an_attempt_more_time(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        put(ledger, job_of(1), lone(1))
        held, left = sorted(worker.claim(2, grace_s=0), key=lambda task: task.job_id is None)
        clock.advance(50)
        hold = Hold(held.id, held.claim_count, 500, held.job_id)
        assert ledger.renew(worker.id, [hold]).alive
        assert stored(ledger, held.id).attempt_deadline_at == clock.now() + 500
        clock.advance(10)
        ledger.renew(worker.id)
        assert ledger.rescue() == [left.id]
        assert not worker.complete(held).fenced

    def test_a_hold_that_comes_late_changes_nothing(
        self, ledger: Ledger, clock: ManualClock, worker: Worker, other: Worker
    ) -> None:
        put(ledger, lone(1))
        late = worker.take()
        clock.advance(20)
        ledger.rescue()
        other.take()
        before = everything(ledger)
        assert not ledger.renew(worker.id, [Hold(late.id, late.claim_count, 10_000)]).alive
        ledger.renew(other.id, [Hold(late.id, late.claim_count, 10_000)])
        assert everything(ledger) == before

    def test_a_second_rescue_finds_nothing(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        put(ledger, lone(1))
        worker.take()
        clock.advance(20)
        assert len(ledger.rescue()) == 1
        before = everything(ledger)
        assert ledger.rescue() == []
        assert everything(ledger) == before

    def test_a_rescue_takes_no_more_than_asked_and_goes_on_next_time(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        task_ids = put(ledger, *(lone(n) for n in range(5)))
        worker.claim(5)
        clock.advance(20)
        rescued = [ledger.rescue(most=2) for _ in range(4)]
        assert [len(some) for some in rescued] == [2, 2, 1, 0]
        assert sorted(chain(*rescued)) == sorted(task_ids)
        for task_id in task_ids:
            assert [past.worker for past in ledger.history(task_id)] == [worker.name]

    def test_a_lost_attempt_shows_in_history(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        claimed = worker.take()
        clock.advance(20)
        ledger.rescue()
        (past,) = ledger.history(task_id)
        assert (past.outcome, past.status, past.token, past.attempt) == ("lost", Status.PENDING, 1, 1)
        assert (past.worker, past.session_id, past.settled) == (worker.name, worker.id, False)
        assert (past.claimed_at, past.ended_at) == (claimed.claimed_at, clock.now())
        assert past.error_text

    def test_a_task_asked_to_end_is_canceled_by_its_rescue(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        (task_id,) = put(ledger, lone(1))
        worker.take()
        ledger.cancel([task_id], action())
        clock.advance(20)
        assert ledger.rescue() == [task_id]
        task = stored(ledger, task_id)
        assert (task.status, task.lost_count) == (Status.CANCELED, 0)
        assert [past.outcome for past in ledger.history(task_id)] == ["canceled"]

    def test_five_lost_attempts_make_a_task_poison(self, ledger: Ledger, clock: ManualClock) -> None:
        new = job_of(1)
        put(ledger, new)
        (task_id,) = (task.id for task in all_tasks(ledger))
        for lost in range(1, 6):
            Worker(ledger, clock, f"worker-{lost}").take()
            clock.advance(20)
            assert ledger.rescue() == [task_id]
            assert stored(ledger, task_id).status is (Status.FAILED if lost == 5 else Status.PENDING)
        poisoned = stored(ledger, task_id)
        assert (poisoned.error_class, poisoned.lost_count, poisoned.retry_count) == ("poison", 5, 0)
        assert [past.outcome for past in ledger.history(task_id)] == ["lost"] * 5
        job = job_row(ledger, new.id)
        assert (job.status, job.error_class, job.failed_count) == (Status.FAILED, "ocr_failed", 1)
        assert Worker(ledger, clock).claim(5) == ()

    def test_attempts_that_ended_otherwise_do_not_make_poison(self, ledger: Ledger, clock: ManualClock) -> None:
        (task_id,) = put(ledger, lone(1))
        survivor = Worker(ledger, clock, lease_s=100_000)
        survivor.settle(survivor.take(), Failed(error_class="timeout", text="60 s", delay_s=0))
        for _ in range(4):
            Worker(ledger, clock).take()
            clock.advance(20)
            ledger.rescue()
        worker = Worker(ledger, clock)
        worker.release(worker.take(), started=True)
        worker.reschedule(worker.take(), 0)
        ledger.close_session(worker.id)
        task = stored(ledger, task_id)
        assert (task.status, task.lost_count) == (Status.PENDING, 4)
        assert not survivor.complete(survivor.take()).fenced
