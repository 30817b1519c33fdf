"""Promises of lose_result: a lost result is made again, at no cost in retries, and merged again."""

from __future__ import annotations

from forebay import ids
from forebay.clock import ManualClock
from forebay.model.exchange import Acted
from forebay.model.job import Event
from forebay.model.outcome import Completed, Failed
from forebay.model.task import Status
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, event_names, everything, job_row, put, stored
from forebay.testing.workers import Worker, action, blob, chunk, follow, job_of, lone, split_job


class LostResultPromises(LedgerCase):
    def _completed(self, ledger: Ledger, worker: Worker) -> tuple[str, list[str]]:
        """A job that is done, and the ids of its two chunks and its merge."""
        new = job_of(2)
        put(ledger, new)
        tasks = [worker.take(), worker.take()]
        for number, task in enumerate(tasks):
            worker.complete(task, result_blob=blob(number))
        merge = worker.take("merge")
        worker.complete(merge, result_blob=blob(9))
        assert job_row(ledger, new.id).status is Status.COMPLETED
        return new.id, [tasks[0].id, tasks[1].id, merge.id]

    def test_a_chunk_of_a_completed_job_runs_again_and_then_the_merge(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        job_id, (first, second, merge) = self._completed(ledger, worker)
        clock.advance(5)
        assert ledger.lose_result(second, blob(1), action()) == Acted(second, "done")
        job = job_row(ledger, job_id)
        assert (job.status, job.generation, job.merge_id, job.finished_at) == (Status.PENDING, 2, None, None)
        assert (job.open_count, job.completed_count) == (1, 1)
        task = stored(ledger, second)
        assert (task.status, task.retry_count, task.result_blob) == (Status.PENDING, 0, None)
        assert "result_lost" in event_names(ledger, job_id)
        worker.complete(worker.take(), result_blob=blob(7))
        newer = worker.take("merge")
        assert (newer.generation, newer.id == merge) == (2, False)
        worker.complete(newer)
        assert job_row(ledger, job_id).status is Status.COMPLETED
        assert len(ledger.history(first)) == 1
        assert [past.outcome for past in ledger.history(second)] == ["completed", "completed"]

    def test_what_was_found_is_told_in_the_same_step(self, ledger: Ledger, worker: Worker) -> None:
        job_id, (_, second, _) = self._completed(ledger, worker)
        told = Event(name="found", fields={"index": 1})
        assert ledger.lose_result(second, blob(1), action(), told=told).done
        assert [(each.name, each.fields) for each in ledger.events(job_id)][-2:] == [
            ("result_lost", {"index": 1}),
            ("found", {"index": 1}),
        ]
        assert ledger.lose_result(second, blob(1), action(), told=told).outcome == "changed"
        assert event_names(ledger, job_id).count("found") == 1

    def test_a_lost_merge_runs_again_alone(self, ledger: Ledger, worker: Worker) -> None:
        job_id, (_, _, merge) = self._completed(ledger, worker)
        assert ledger.lose_result(merge, blob(9), action()).done
        assert worker.claim(9) == ()
        again = worker.take("merge")
        assert (again.generation, again.retry_count) == (2, 0)
        worker.complete(again, result_blob=blob(8))
        job = job_row(ledger, job_id)
        assert (job.status, job.merge_id) == (Status.COMPLETED, again.id)

    def test_a_result_that_was_replaced_since_is_not_lost(self, ledger: Ledger, worker: Worker) -> None:
        job_id, (first, _, _) = self._completed(ledger, worker)
        ledger.lose_result(first, blob(0), action())
        worker.complete(worker.take(), result_blob=blob(5))
        worker.complete(worker.take("merge"))
        before = everything(ledger)
        for stale in (blob(0), blob(77), None):
            assert ledger.lose_result(first, stale, action()).outcome == "changed"
        assert {**everything(ledger), "audit": []} == {**before, "audit": []}
        assert job_row(ledger, job_id).generation == 2

    def test_a_merge_that_was_replaced_since_is_not_lost(self, ledger: Ledger, worker: Worker) -> None:
        job_id, (first, _, merge) = self._completed(ledger, worker)
        ledger.lose_result(first, blob(0), action())
        before = everything(ledger)
        assert ledger.lose_result(merge, blob(9), action()).outcome == "changed"
        assert {**everything(ledger), "audit": []} == {**before, "audit": []}
        assert worker.claim(9, "merge") == ()
        assert job_row(ledger, job_id).open_count == 1

    def test_only_a_completed_task_has_a_result_to_lose(self, ledger: Ledger, worker: Worker) -> None:
        failed, running, waiting = put(ledger, lone(1), lone(2), lone(3))
        first, _ = worker.claim(2)
        worker.fail(first)
        for task_id in (failed, running, waiting):
            assert ledger.lose_result(task_id, None, action()).outcome == "changed"
        assert ledger.lose_result(ids.random_id(), None, action()).outcome == "not_found"

    def test_a_job_as_such_has_no_result_to_lose(self, ledger: Ledger, worker: Worker) -> None:
        job_id, _ = self._completed(ledger, worker)
        assert ledger.lose_result(job_id, None, action()).outcome == "not_found"
        assert job_row(ledger, job_id).status is Status.COMPLETED

    def test_the_lost_result_of_a_lone_task_is_made_again(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1, max_retries=1))
        worker.settle(worker.take(), Failed(error_class="timeout", text="60 s", delay_s=0))
        worker.settle(worker.take(), Completed(result_json="17"))
        assert ledger.lose_result(task_id, None, action()).done
        task = stored(ledger, task_id)
        assert (task.status, task.retry_count, task.result_json, task.generation) == (Status.PENDING, 1, None, 2)

    def test_two_chunks_lost_at_once_lead_to_one_merge(self, ledger: Ledger, worker: Worker) -> None:
        job_id, (first, second, _) = self._completed(ledger, worker)
        ledger.lose_result(first, blob(0), action())
        ledger.lose_result(second, blob(1), action())
        for task in worker.claim(9):
            worker.complete(task)
        assert [task.generation for task in worker.claim(9, "merge")] == [3]
        assert job_row(ledger, job_id).generation == 3

    def test_a_chunk_lost_during_the_merge_is_merged_by_the_next(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(1)
        put(ledger, new)
        task = worker.take()
        worker.complete(task, result_blob=blob(1))
        merge = worker.take("merge")
        assert ledger.lose_result(task.id, blob(1), action()).done
        worker.settle(merge, Failed(error_class="corrupted_content", text="blob is gone"))
        assert not job_row(ledger, new.id).status.terminal
        worker.complete(worker.take())
        worker.complete(worker.take("merge"))
        assert job_row(ledger, new.id).status is Status.COMPLETED

    def test_a_follow_up_that_lost_its_result_leaves_its_job_as_it_is(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(1)
        put(ledger, new)
        worker.complete(worker.take(), follow_ups=[follow("told")])
        worker.complete(worker.take("merge"))
        told = worker.take("notify")
        worker.complete(told)
        before = job_row(ledger, new.id)
        assert ledger.lose_result(told.id, None, action()).done
        worker.complete(worker.take("notify"))
        after = job_row(ledger, new.id)
        assert (after.status, after.generation, after.merge_id) == (before.status, before.generation, before.merge_id)

    def test_a_split_is_not_run_again_since_its_chunks_are_there(self, ledger: Ledger, worker: Worker) -> None:
        new = split_job()
        put(ledger, new)
        split = worker.take("split")
        worker.complete(split, follow_ups=[chunk(0), chunk(1)])
        before = everything(ledger)
        assert ledger.lose_result(split.id, None, action()).outcome == "not_retryable"
        assert {**everything(ledger), "audit": []} == {**before, "audit": []}

    def test_a_job_that_was_asked_to_cancel_makes_no_lost_result_again(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(2)
        put(ledger, new)
        done, running = worker.claim(2)
        worker.complete(done, result_blob=blob(1), follow_ups=[follow("told")])
        ledger.cancel([new.id], action())
        for _ in range(2):
            before = everything(ledger)
            answer = ledger.lose_result(done.id, blob(1), action())
            assert (answer.outcome, bool(answer.text)) == ("not_retryable", True)
            assert {**everything(ledger), "audit": []} == {**before, "audit": []}
            worker.stop(running)
        assert job_row(ledger, new.id).status is Status.CANCELED
        told = worker.take("notify")
        worker.complete(told)
        assert ledger.lose_result(told.id, None, action()).done
        assert ledger.retry([new.id], action())[0].done
        assert ledger.lose_result(done.id, blob(1), action()).done

    def test_a_repeated_loss_is_answered_alike_though_the_task_completed_again(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        (task_id,) = put(ledger, lone(1))
        worker.complete(worker.take())
        asked = action()
        assert ledger.lose_result(task_id, None, asked).done
        worker.complete(worker.take())
        before = everything(ledger)
        assert ledger.lose_result(task_id, None, asked) == Acted(task_id, "done")
        assert everything(ledger) == before
