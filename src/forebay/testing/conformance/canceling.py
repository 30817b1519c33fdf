"""Promises of cancel: what waits ends at once, what runs is asked to stop, what has ended stays."""

from __future__ import annotations

import pytest

from forebay import ids
from forebay.clock import ManualClock
from forebay.model.exchange import Acted
from forebay.model.outcome import Failed
from forebay.model.task import Role, Status
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, event_names, everything, job_row, put, statuses, stored
from forebay.testing.invariants import all_tasks
from forebay.testing.workers import Worker, action, chunk, follow, job_of, lone, split_job


class CancelPromises(LedgerCase):
    def test_a_waiting_task_is_canceled_at_once(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        ready, later = put(ledger, lone(1), lone(2, delay_s=50))
        assert ledger.cancel([ready, later], action()) == [Acted(ready, "done"), Acted(later, "done")]
        for task_id in (ready, later):
            task = stored(ledger, task_id)
            assert (task.status, task.finished_at, task.error_class) == (Status.CANCELED, clock.now(), "canceled")
            assert (task.wait_reason, ledger.history(task_id)) == (None, [])
        clock.advance(100)
        assert worker.claim(5) == ()

    def test_a_running_task_is_asked_to_stop(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        task = worker.take()
        assert ledger.cancel([task_id], action())[0].done
        asked = stored(ledger, task_id)
        assert (asked.status, asked.cancel_requested_at) == (Status.RUNNING, clock.now())
        clock.advance(3)
        assert ledger.cancel([task_id], action())[0].done
        assert stored(ledger, task_id).cancel_requested_at == clock.now() - 3
        assert not worker.stop(task).fenced
        assert stored(ledger, task_id).status is Status.CANCELED
        assert [past.outcome for past in ledger.history(task_id)] == ["canceled"]

    def test_an_attempt_that_would_go_on_ends_canceled_instead(self, ledger: Ledger, worker: Worker) -> None:
        for outcome in ("retried", "rescheduled", "released"):
            (task_id,) = put(ledger, lone(outcome))
            task = worker.take()
            ledger.cancel([task_id], action())
            if outcome == "retried":
                assert not worker.settle(task, Failed(error_class="timeout", text="60 s")).fenced
            elif outcome == "rescheduled":
                assert not worker.reschedule(task, 60).fenced
            else:
                worker.release(task)
            ended = stored(ledger, task_id)
            assert (ended.status, ended.retry_count, ended.reschedule_count) == (Status.CANCELED, 0, 0)
            assert [past.outcome for past in ledger.history(task_id)] == ["canceled"]

    def test_an_attempt_that_ends_by_itself_keeps_its_outcome(self, ledger: Ledger, worker: Worker) -> None:
        done, failed = put(ledger, lone("done"), lone("failed"))
        first, second = worker.claim(2)
        ledger.cancel([done, failed], action())
        worker.complete(first)
        worker.fail(second)
        assert stored(ledger, done).status is Status.COMPLETED
        assert stored(ledger, failed).status is Status.FAILED

    def test_what_has_ended_is_not_canceled(self, ledger: Ledger, worker: Worker) -> None:
        done, failed, canceled = put(ledger, lone(1), lone(2), lone(3))
        one, two = worker.claim(2)
        worker.complete(one)
        worker.fail(two)
        ledger.cancel([canceled], action())
        before = everything(ledger)
        answer = ledger.cancel([done, failed, canceled, unknown := ids.random_id()], action())
        assert [(acted.id, acted.outcome) for acted in answer] == [
            (done, "already_completed"),
            (failed, "already_failed"),
            (canceled, "already_canceled"),
            (unknown, "not_found"),
        ]
        assert all(acted.text for acted in answer)
        assert {**everything(ledger), "audit": []} == {**before, "audit": []}

    def test_a_waiting_job_is_canceled_whole(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        new = job_of(3)
        put(ledger, new)
        assert ledger.cancel([new.id], action()) == [Acted(new.id, "done")]
        job = job_row(ledger, new.id)
        assert (job.status, job.finished_at, job.error_class) == (Status.CANCELED, clock.now(), "canceled")
        assert (job.canceled_count, job.open_count, job.merge_id) == (3, 0, None)
        assert statuses(ledger, new.id) == [Status.CANCELED] * 3
        names = event_names(ledger, new.id)
        assert names.count("cancel_requested") == 1
        assert names.count("chunk_canceled") == 3
        assert names[-1] == "job_canceled"
        assert worker.claim(5) == ()

    def test_a_running_job_ends_with_its_last_attempt_and_keeps_what_is_done(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        new = job_of(4)
        put(ledger, new)
        done, running, finishing = worker.claim(3)
        worker.complete(done)
        ledger.cancel([new.id], action())
        assert job_row(ledger, new.id).status is Status.RUNNING
        assert job_row(ledger, new.id).cancel_requested_at is not None
        assert set(ledger.renew(worker.id).cancel_requested) == {running.id, finishing.id}
        worker.complete(finishing)
        worker.stop(running)
        assert statuses(ledger, new.id) == [Status.COMPLETED, Status.CANCELED, Status.COMPLETED, Status.CANCELED]
        job = job_row(ledger, new.id)
        assert (job.status, job.completed_count, job.canceled_count) == (Status.CANCELED, 2, 2)
        assert ledger.cancel([new.id], action())[0].outcome == "already_canceled"

    def test_a_job_is_canceled_though_its_last_chunk_completes(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(1)
        put(ledger, new)
        task = worker.take()
        ledger.cancel([new.id], action())
        worker.complete(task)
        assert job_row(ledger, new.id).status is Status.CANCELED
        assert worker.claim(1, "merge") == ()

    def test_a_job_can_be_canceled_before_and_during_its_merge(self, ledger: Ledger, worker: Worker) -> None:
        waiting, running = job_of(1), job_of(1)
        for new in (waiting, running):
            put(ledger, new)
            worker.complete(worker.take())
            if new is running:
                merge = worker.take("merge")
                ledger.cancel([new.id], action())
                assert ledger.renew(worker.id).cancel_requested == (merge.id,)
                worker.stop(merge)
            else:
                ledger.cancel([new.id], action())
            assert job_row(ledger, new.id).status is Status.CANCELED
            assert statuses(ledger, new.id) == [Status.COMPLETED, Status.CANCELED]

    def test_one_chunk_can_be_canceled_and_leaves_a_hole(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(2)
        put(ledger, new)
        first, second = all_tasks(ledger, new.id)
        assert ledger.cancel([second.id], action())[0].done
        assert stored(ledger, first.id).status is Status.PENDING
        worker.complete(worker.take())
        job = job_row(ledger, new.id)
        assert (job.status, job.error_class) == (Status.FAILED, "ocr_failed")
        assert job.error_text is not None
        assert "chunk 1" in job.error_text

    def test_a_canceled_job_takes_no_more_chunks(self, ledger: Ledger, worker: Worker) -> None:
        new = split_job()
        put(ledger, new)
        split = worker.take("split")
        ledger.cancel([new.id], action())
        assert not worker.complete(split, follow_ups=[chunk(0), chunk(1)]).fenced
        assert job_row(ledger, new.id).status is Status.CANCELED
        assert worker.claim(5) == ()

    def test_a_job_canceled_while_it_is_split_can_be_retried(self, ledger: Ledger, worker: Worker) -> None:
        new = split_job()
        put(ledger, new)
        split = worker.take("split")
        ledger.cancel([new.id], action())
        worker.complete(split, follow_ups=[chunk(0)])
        assert ledger.retry([new.id], action()) == [Acted(new.id, "done")]
        worker.complete(worker.take("split"), follow_ups=[chunk(0)])
        worker.complete(worker.take())
        worker.complete(worker.take("merge"))
        assert job_row(ledger, new.id).status is Status.COMPLETED

    def test_follow_ups_go_their_own_way(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(2)
        put(ledger, new)
        worker.complete(worker.take(), follow_ups=[follow("told")])
        ledger.cancel([new.id], action())
        assert [(task.role, task.status) for task in all_tasks(ledger, new.id)] == [
            (Role.CHUNK, Status.COMPLETED),
            (Role.CHUNK, Status.CANCELED),
            (Role.FOLLOW, Status.PENDING),
        ]
        worker.complete(worker.take("notify"))
        assert job_row(ledger, new.id).status is Status.CANCELED

    @pytest.mark.parametrize("running", [False, True])
    def test_a_repeated_cancel_is_answered_alike(self, ledger: Ledger, worker: Worker, *, running: bool) -> None:
        new = job_of(2)
        task_id = lone(1).id
        put(ledger, new)
        if running:
            worker.claim(2)
        asked = action()
        answer = ledger.cancel([new.id, task_id], asked)
        before = everything(ledger)
        assert ledger.cancel([new.id, task_id], asked) == answer
        assert everything(ledger) == before

    def test_a_repeated_cancel_does_not_cancel_what_was_retried_since(self, ledger: Ledger) -> None:
        (task_id,) = put(ledger, lone(1))
        asked = action()
        ledger.cancel([task_id], asked)
        ledger.retry([task_id], action())
        assert ledger.cancel([task_id], asked) == [Acted(task_id, "done")]
        assert stored(ledger, task_id).status is Status.PENDING
