"""Promises to tasks that wait: ready exactly when due, behind those who came before, in place after a release."""

from __future__ import annotations

from forebay import ids
from forebay.clock import ManualClock
from forebay.model.exchange import Want
from forebay.model.outcome import Failed, Rescheduled
from forebay.model.task import Status, WaitReason
from forebay.stores.base import MAX_PROMOTED, Ledger
from forebay.testing.conformance.case import LedgerCase, put, stored
from forebay.testing.invariants import all_tasks
from forebay.testing.workers import Worker, action, job_of, lone


class WaitPromises(LedgerCase):
    def test_a_delayed_task_is_ready_exactly_when_it_is_due(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        (task_id,) = put(ledger, lone(1, delay_s=10))
        task = stored(ledger, task_id)
        assert (task.available_at, task.wait_reason) == (clock.now() + 10, WaitReason.SCHEDULED)
        clock.advance(9.75)
        assert worker.claim() == ()
        assert worker.exchange(wants=[Want("work", 1)]).lanes == {"work": ()}
        clock.advance(0.25)
        assert worker.take().id == task_id

    def test_a_task_waits_for_the_later_of_its_delay_and_its_instant(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, lone("delay", delay_s=20, available_at=clock.now() + 10))
        put(ledger, lone("instant", delay_s=5, available_at=clock.now() + 10))
        put(ledger, lone("past", available_at=clock.now() - 10))
        assert worker.take().payload == "past"
        clock.advance(10)
        assert [task.payload for task in worker.claim(5)] == ["instant"]
        clock.advance(10)
        assert [task.payload for task in worker.claim(5)] == ["delay"]

    def test_a_task_that_becomes_due_does_not_jump_the_line(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, lone("delayed", delay_s=10))
        put(ledger, *(lone(n) for n in range(5)))
        clock.advance(10)
        assert [task.payload for task in worker.claim(6)] == [0, 1, 2, 3, 4, "delayed"]

    def test_many_delayed_tasks_do_not_clog_the_line(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n, delay_s=1000, priority=9) for n in range(self.many)))
        put(ledger, lone("ready"))
        assert [task.payload for task in worker.claim(50)] == ["ready"]

    def test_however_many_become_due_at_once_all_are_claimed(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, *(lone(n, delay_s=10) for n in range(self.many)))
        clock.advance(10)
        first = worker.exchange(wants=[Want("work", 10)])
        assert len(first.claims) == 10
        assert first.next_due_in_s is None or first.next_due_in_s >= 0
        assert sum(len(worker.claim(1000)) for _ in range(-(-self.many // MAX_PROMOTED))) == self.many - 10

    def test_a_reschedule_is_a_sleep_that_costs_no_retry(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        (task_id,) = put(ledger, lone(1))
        assert not worker.reschedule(worker.take(), 60).fenced
        task = stored(ledger, task_id)
        assert (task.status, task.wait_reason) == (Status.PENDING, WaitReason.RESCHEDULE)
        assert (task.reschedule_count, task.retry_count, task.available_at) == (1, 0, clock.now() + 60)
        clock.advance(59.5)
        assert worker.claim() == ()
        clock.advance(0.5)
        assert worker.take().claim_count == 2

    def test_a_reschedule_may_name_an_instant(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        worker.settle(worker.take(), Rescheduled(until=clock.now() + 77))
        assert stored(ledger, task_id).available_at == clock.now() + 77
        clock.advance(77)
        assert worker.take().id == task_id

    def test_a_reschedule_without_delay_goes_to_the_back_of_the_line(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, *(lone(n) for n in range(4)))
        clock.advance(1)
        worker.reschedule(worker.take(), 0)
        assert [task.payload for task in worker.claim(4)] == [1, 2, 3, 0]

    def test_a_chunk_rescheduled_without_delay_goes_behind_its_siblings(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, job_of(4))
        clock.advance(1)
        worker.reschedule(worker.take(), 0)
        assert [task.chunk_index for task in worker.claim(4)] == [1, 2, 3, 0]

    def test_a_failure_that_may_pass_waits_for_its_retry(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        (task_id,) = put(ledger, lone(1))
        worker.settle(worker.take(), Failed(error_class="timeout", text="60 s", delay_s=8))
        task = stored(ledger, task_id)
        assert (task.status, task.wait_reason, task.error_class) == (Status.PENDING, WaitReason.RETRY, "timeout")
        assert (task.retry_count, task.reschedule_count, task.available_at) == (1, 0, clock.now() + 8)
        clock.advance(8)
        assert worker.take().wait_reason is None

    def test_a_failure_that_may_pass_fails_for_good_when_its_retries_are_used_up(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        (task_id,) = put(ledger, lone(1, max_retries=2))
        for _ in range(3):
            worker.settle(worker.take(), Failed(error_class="timeout", text="60 s", delay_s=0))
        task = stored(ledger, task_id)
        assert (task.status, task.retry_count, task.error_text) == (Status.FAILED, 2, "60 s")
        assert worker.claim() == ()

    def test_one_reschedule_more_than_allowed_fails(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1, max_reschedules=2))
        for _ in range(3):
            worker.reschedule(worker.take(), 0)
        task = stored(ledger, task_id)
        assert (task.status, task.reschedule_count) == (Status.FAILED, 2)
        assert task.error_text == "Max reschedules (2) exceeded"

    def test_a_release_burns_nothing_and_keeps_its_place(self, ledger: Ledger, worker: Worker) -> None:
        (task_id, *_) = put(ledger, *(lone(n) for n in range(4)))
        worker.release(worker.take())
        task = stored(ledger, task_id)
        assert (task.status, task.wait_reason, task.attempt_count) == (Status.PENDING, None, 0)
        assert (task.retry_count, task.reschedule_count, task.lost_count) == (0, 0, 0)
        assert ledger.history(task_id) == []
        assert [task.payload for task in worker.claim(4)] == [0, 1, 2, 3]

    def test_several_released_at_once_keep_their_order(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n) for n in range(5)))
        worker.release(*reversed(worker.claim(3)))
        assert [task.payload for task in worker.claim(5)] == [0, 1, 2, 3, 4]

    def test_a_release_after_the_start_shows_in_history(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        worker.release(worker.take(), started=True)
        (past,) = ledger.history(task_id)
        assert (past.outcome, past.status, past.attempt) == ("released", Status.PENDING, 1)
        assert stored(ledger, task_id).attempt_count == 1

    def test_a_rescued_task_keeps_its_place(
        self, ledger: Ledger, clock: ManualClock, worker: Worker, other: Worker
    ) -> None:
        put(ledger, *(lone(n) for n in range(4)))
        worker.take()
        clock.advance(16)
        ledger.rescue()
        assert [task.payload for task in other.claim(4)] == [0, 1, 2, 3]

    def test_waiting_tasks_are_as_they_were_after_reopening(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, *(lone(n) for n in range(4)), lone("later", delay_s=10))
        clock.advance(1)
        worker.reschedule(worker.take(), 0)
        again = Worker(self.reopened(ledger, clock), clock)
        clock.advance(10)
        assert [task.payload for task in again.claim(9)] == [1, 2, 3, 0, "later"]

    def test_those_ahead_are_those_that_are_claimed_before(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, job_of(6), *(lone(n, priority=n % 3 - 1) for n in range(9)), job_of(3))
        put(ledger, lone("elsewhere", limit="adobe", priority=9), lone("another", kind="other", priority=9))
        line = [task.id for task in all_tasks(ledger) if task.lane == "work"]
        ahead = {task_id: ledger.ahead(task_id).task_count for task_id in line}
        assert sorted(line, key=ahead.__getitem__) == [task.id for task in worker.claim(99, lane="work")]
        assert sorted(ahead.values()) == [*range(len(line))]

    def test_a_pause_does_not_change_who_is_ahead(self, ledger: Ledger) -> None:
        tasks = put(ledger, lone(1), lone(2))
        ledger.pause("work", action())
        assert [ledger.ahead(task_id).task_count for task_id in tasks] == [0, 1]

    def test_a_task_that_is_not_due_has_all_ready_tasks_of_its_lane_ahead(
        self, ledger: Ledger, clock: ManualClock
    ) -> None:
        (later,) = put(ledger, lone("later", delay_s=100, priority=9))
        assert ledger.ahead(later).task_count == 0
        put(ledger, lone(1), lone(2, delay_s=10), lone(3, delay_s=200), lone(4, limit="adobe"), lone(5, priority=-9))
        assert ledger.ahead(later).task_count == 2
        clock.advance(10)
        assert ledger.ahead(later).task_count == 3

    def test_nobody_is_ahead_of_a_task_that_does_not_wait(self, ledger: Ledger, worker: Worker) -> None:
        done, running, canceled, first, _ = put(ledger, *(lone(n) for n in range(5)))
        worker.complete(worker.take())
        worker.take()
        ledger.cancel([canceled], action())
        for task_id in (done, running, canceled, first, ids.random_id()):
            assert ledger.ahead(task_id).task_count == 0
