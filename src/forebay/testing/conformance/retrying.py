"""Promises of an explicit retry: only what failed runs again, within its limit, under a new generation."""

from __future__ import annotations

from forebay import ids
from forebay.clock import ManualClock
from forebay.model.exchange import Acted
from forebay.model.outcome import Failed, Rescheduled
from forebay.model.task import Role, Status, WaitReason
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, event_names, everything, job_row, put, statuses, stored
from forebay.testing.invariants import all_tasks
from forebay.testing.workers import Worker, action, blob, follow, job_of, lone, split_job

LIMIT = "RETRY_LIMIT_EXCEEDED"


class RetryPromises(LedgerCase):
    def test_a_failed_task_runs_again(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        worker.reschedule(worker.take(), 0)
        worker.fail(worker.take())
        clock.advance(5)
        assert ledger.retry([task_id], action()) == [Acted(task_id, "done")]
        task = stored(ledger, task_id)
        assert (task.status, task.retry_count, task.generation) == (Status.PENDING, 0, 2)
        assert (task.requested_retry_count, task.error_class, task.error_text) == (1, None, None)
        assert (task.available_at, task.finished_at, task.reschedule_count) == (clock.now(), None, 0)
        assert not worker.complete(worker.take()).fenced
        assert [past.outcome for past in ledger.history(task_id)] == ["rescheduled", "failed", "completed"]
        assert [past.attempt for past in ledger.history(task_id)] == [1, 2, 3]

    def test_a_canceled_task_runs_again(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        ledger.cancel([task_id], action())
        assert ledger.retry([task_id], action())[0].done
        task = worker.take()
        assert (task.id, task.cancel_requested_at) == (task_id, None)
        worker.reschedule(task, 0)
        assert stored(ledger, task_id).status is Status.PENDING

    def test_what_has_not_failed_is_not_retried(self, ledger: Ledger, worker: Worker) -> None:
        done, running, waiting = put(ledger, lone(1), lone(2), lone(3))
        first, _ = worker.claim(2)
        worker.complete(first)
        before = everything(ledger)
        answer = ledger.retry([done, running, waiting, unknown := ids.random_id()], action(), force=True)
        assert [acted.outcome for acted in answer] == [*["not_retryable"] * 3, "not_found"]
        assert [acted.id for acted in answer] == [done, running, waiting, unknown]
        assert {**everything(ledger), "audit": []} == {**before, "audit": []}

    def test_what_waits_for_a_budget_may_start_at_once(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        (held_back, later) = put(ledger, lone(1), lone(2))
        first, second = worker.claim(2)
        worker.settle(first, Rescheduled(delay_s=600, text="used up", wait_reason=WaitReason.BUDGET))
        worker.settle(second, Rescheduled(delay_s=600))
        clock.advance(5)
        answer = ledger.retry([held_back, later], action())
        assert [acted.outcome for acted in answer] == ["done", "not_retryable"]
        task = stored(ledger, held_back)
        assert (task.available_at, task.wait_reason, task.retry_count) == (clock.now(), None, 0)
        assert [task.id for task in worker.claim(2)] == [held_back]

    def test_the_tasks_own_retries_begin_again_with_each_requested_retry(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1, max_retries=1))
        for requested in range(4):
            for own in range(2):
                task = worker.take()
                assert (task.retry_count, task.requested_retry_count) == (own, requested)
                worker.settle(task, Failed(error_class="timeout", text="60 s", delay_s=0))
            assert stored(ledger, task_id).status is Status.FAILED
            assert ledger.retry([task_id], action())[0].done is (requested < 3)

    def test_after_three_requested_retries_it_is_permanent_and_says_so(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        for _ in range(3):
            worker.fail(worker.take(), "timeout", "60 s")
            assert stored(ledger, task_id).error_text == "60 s"
            assert ledger.retry([task_id], action())[0].done
        worker.fail(worker.take(), "timeout", "60 s")
        task = stored(ledger, task_id)
        assert (task.error_class, (task.error_text or "")[:16]) == ("timeout", "PERMANENT: 60 s ")
        before = everything(ledger)
        (refused,) = ledger.retry([task_id], action())
        assert refused.outcome == LIMIT
        assert "3 of 3" in refused.text
        assert {**everything(ledger), "audit": []} == {**before, "audit": []}

    def test_force_goes_over_the_limit_and_begins_to_count_again(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        for _ in range(3):
            worker.fail(worker.take())
            ledger.retry([task_id], action())
        worker.fail(worker.take())
        assert ledger.retry([task_id], action())[0].outcome == LIMIT
        assert ledger.retry([task_id], action(), force=True)[0].done
        assert stored(ledger, task_id).requested_retry_count == 0
        worker.fail(worker.take())
        assert ledger.retry([task_id], action())[0].done

    def test_what_cannot_succeed_is_not_run_again_without_force(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        worker.fail(worker.take(), "invalid_pdf")
        before = everything(ledger)
        (refused,) = ledger.retry([task_id], action())
        assert refused.outcome == "not_retryable"
        assert "invalid_pdf" in refused.text
        assert {**everything(ledger), "audit": []} == {**before, "audit": []}
        assert ledger.retry([task_id], action(), force=True)[0].done
        assert worker.take().id == task_id

    def test_a_canceled_task_may_be_retried_any_number_of_times(self, ledger: Ledger) -> None:
        (task_id,) = put(ledger, lone(1))
        for _ in range(5):
            ledger.cancel([task_id], action())
            assert ledger.retry([task_id], action())[0].done
        assert stored(ledger, task_id).requested_retry_count == 0

    def test_a_job_that_may_have_holes_retries_what_can_succeed(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(3, allow_holes=True)
        put(ledger, new)
        done, hopeless, failed = worker.claim(3)
        worker.complete(done)
        worker.fail(hopeless, "invalid_pdf")
        worker.fail(failed)
        worker.complete(worker.take("merge"))
        assert ledger.retry([new.id], action())[0].done
        assert [task.id for task in worker.claim(9)] == [failed.id]
        assert stored(ledger, hopeless.id).status is Status.FAILED
        worker.complete(failed := stored(ledger, failed.id))
        worker.complete(worker.take("merge"))
        assert job_row(ledger, new.id).status is Status.COMPLETED
        assert ledger.retry([new.id], action())[0].outcome == "not_retryable"

    def test_a_poisoned_task_may_be_retried_with_force(self, ledger: Ledger, clock: ManualClock) -> None:
        (task_id,) = put(ledger, lone(1))
        for _ in range(5):
            Worker(ledger, clock).take()
            clock.advance(20)
            ledger.rescue()
        assert ledger.retry([task_id], action())[0].outcome == "not_retryable"
        assert ledger.retry([task_id], action(), force=True)[0].done
        Worker(ledger, clock).take()
        clock.advance(20)
        ledger.rescue()
        assert stored(ledger, task_id).status is Status.PENDING

    def test_only_the_failed_chunks_of_a_job_run_again_and_then_its_merge(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(3)
        put(ledger, new)
        kept, lost, halted = worker.claim(3)
        worker.complete(kept, result_blob=blob(1))
        worker.fail(lost)
        ledger.cancel([halted.id], action())
        worker.stop(halted)
        assert job_row(ledger, new.id).status is Status.FAILED
        assert ledger.retry([new.id], action()) == [Acted(new.id, "done")]
        job = job_row(ledger, new.id)
        assert (job.status, job.generation, job.finished_at, job.error_class) == (Status.PENDING, 2, None, None)
        assert (job.open_count, job.completed_count, job.failed_count, job.canceled_count) == (2, 1, 0, 0)
        assert "retrying_failed_chunks" in event_names(ledger, new.id)
        again = worker.claim(9)
        assert {task.id for task in again} == {lost.id, halted.id}
        assert {task.generation for task in again} == {2}
        for task in again:
            worker.complete(task)
        assert stored(ledger, kept.id).result_blob == blob(1)
        assert len(ledger.history(kept.id)) == 1
        worker.complete(worker.take("merge"))
        assert job_row(ledger, new.id).status is Status.COMPLETED

    def test_a_chunk_at_its_limit_is_named_and_nothing_of_the_job_runs(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(3)
        put(ledger, new)
        for again in range(4):
            for task in worker.claim(3):
                worker.fail(task)
            if again < 3:
                ledger.retry([new.id], action())
        before = everything(ledger)
        (refused,) = ledger.retry([new.id], action())
        assert refused.outcome == LIMIT
        assert "chunk 0" in refused.text
        assert "chunk 2" in refused.text
        assert {**everything(ledger), "audit": []} == {**before, "audit": []}
        assert ledger.retry([new.id], action(), force=True)[0].done
        assert len(worker.claim(9)) == 3

    def test_one_chunk_can_be_retried_while_others_are_open(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(3)
        put(ledger, new)
        failed, running = worker.claim(2)
        worker.fail(failed)
        assert ledger.retry([failed.id], action())[0].done
        job = job_row(ledger, new.id)
        assert (job.status, job.generation, job.open_count) == (Status.RUNNING, 2, 3)
        worker.complete(running)
        for task in worker.claim(9):
            worker.complete(task)
        merges = [task for task in all_tasks(ledger, new.id) if task.role is Role.MERGE]
        assert [merge.generation for merge in merges] == [2]

    def test_a_failed_merge_runs_again_alone(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(2)
        put(ledger, new)
        for task in worker.claim(2):
            worker.complete(task)
        first = worker.take("merge")
        worker.fail(first)
        job = job_row(ledger, new.id)
        assert (job.status, job.error_class) == (Status.FAILED, "ocr_failed")
        assert ledger.retry([new.id], action())[0].done
        assert worker.claim(9) == ()
        second = worker.take("merge")
        assert (second.generation, second.requested_retry_count, second.id == first.id) == (2, 1, False)
        worker.complete(second)
        assert job_row(ledger, new.id).status is Status.COMPLETED
        assert statuses(ledger, new.id) == [Status.COMPLETED, Status.COMPLETED, Status.FAILED, Status.COMPLETED]

    def test_requested_retries_of_a_merge_are_limited_over_its_generations(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        new = job_of(1)
        put(ledger, new)
        worker.complete(worker.take())
        for _ in range(3):
            worker.fail(worker.take("merge"))
            assert ledger.retry([new.id], action())[0].done
        worker.fail(worker.take("merge"))
        assert ledger.retry([new.id], action())[0].outcome == LIMIT
        assert ledger.retry([new.id], action(), force=True)[0].done
        assert worker.take("merge").requested_retry_count == 0

    def test_a_merge_of_an_older_generation_is_not_retried(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(1)
        put(ledger, new)
        worker.complete(worker.take())
        old = worker.take("merge")
        worker.fail(old)
        ledger.retry([new.id], action())
        newer = worker.take("merge")
        assert ledger.retry([old.id], action())[0].outcome == "not_retryable"
        worker.fail(newer)
        assert ledger.retry([old.id], action())[0].outcome == "not_retryable"
        assert ledger.retry([newer.id], action())[0].done

    def test_an_old_merge_that_still_runs_counts_for_nothing(
        self, ledger: Ledger, worker: Worker, other: Worker
    ) -> None:
        new = job_of(2, allow_holes=True)
        put(ledger, new)
        done, failed = worker.claim(2)
        worker.complete(done)
        worker.fail(failed)
        old = worker.take("merge")
        assert ledger.retry([failed.id], action())[0].done
        assert ledger.renew(worker.id).cancel_requested == (old.id,)
        worker.complete(old)
        job = job_row(ledger, new.id)
        assert (job.status, job.merge_id) == (Status.PENDING, None)
        other.complete(other.take())
        newest = other.take("merge")
        assert (newest.generation, job_row(ledger, new.id).merge_id) == (2, newest.id)
        other.complete(newest)
        assert job_row(ledger, new.id).status is Status.COMPLETED

    def test_an_old_merge_that_still_waits_is_dropped(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(2, allow_holes=True)
        put(ledger, new)
        done, failed = worker.claim(2)
        worker.complete(done)
        worker.fail(failed)
        ledger.retry([failed.id], action())
        assert worker.claim(9, "merge") == ()
        worker.complete(worker.take())
        assert [task.generation for task in worker.claim(9, "merge")] == [2]

    def test_a_failed_split_runs_again(self, ledger: Ledger, worker: Worker) -> None:
        new = split_job()
        put(ledger, new)
        worker.fail(worker.take("split"))
        assert job_row(ledger, new.id).status is Status.FAILED
        assert ledger.retry([new.id], action())[0].done
        assert worker.take("split").generation == 2

    def test_a_retried_follow_up_leaves_its_job_as_it_is(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(1)
        put(ledger, new)
        worker.complete(worker.take(), follow_ups=[follow("told")])
        worker.complete(worker.take("merge"))
        told = worker.take("notify")
        worker.fail(told)
        before = job_row(ledger, new.id)
        assert ledger.retry([told.id], action())[0].done
        worker.complete(worker.take("notify"))
        assert job_row(ledger, new.id) == before

    def test_a_repeated_retry_is_answered_alike_and_done_once(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(2)
        put(ledger, new)
        for task in worker.claim(2):
            worker.fail(task)
        asked = action()
        answer = ledger.retry([new.id], asked)
        before = everything(ledger)
        assert ledger.retry([new.id], asked) == answer
        assert everything(ledger) == before

    def test_a_repeated_retry_does_nothing_though_the_task_failed_again_meanwhile(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        (task_id,) = put(ledger, lone(1))
        worker.fail(worker.take())
        asked, forced = action(), action()
        first = ledger.retry([task_id], asked)
        worker.fail(worker.take())
        assert ledger.retry([task_id], asked) == first
        assert stored(ledger, task_id).status is Status.FAILED
        second = ledger.retry([task_id], forced, force=True)
        worker.fail(worker.take())
        before = everything(ledger)
        assert ledger.retry([task_id], forced, force=True) == second
        assert everything(ledger) == before

    def test_a_refusal_is_repeated_though_a_retry_would_be_allowed_now(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        asked = action()
        refused = ledger.retry([task_id], asked)
        worker.fail(worker.take())
        assert ledger.retry([task_id], asked) == refused
        assert stored(ledger, task_id).status is Status.FAILED
