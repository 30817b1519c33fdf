"""Promises to jobs: follow-ups in the same step, exactly one merge, siblings go on, every failed chunk named."""

from __future__ import annotations

from forebay.clock import ManualClock
from forebay.model.job import member_id
from forebay.model.outcome import Completed, Failed
from forebay.model.task import Role, Status
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, event_names, job_row, put, statuses, stored
from forebay.testing.invariants import all_tasks
from forebay.testing.workers import Worker, blob, chunk, follow, job_of, lone, split_job


class JobPromises(LedgerCase):
    def test_a_job_runs_from_its_first_claim_to_the_end_of_its_merge(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        new = job_of(2)
        put(ledger, new)
        clock.advance(1)
        first, second = worker.claim(2)
        job = job_row(ledger, new.id)
        assert (job.status, job.started_at, job.running_count) == (Status.RUNNING, clock.now(), 2)
        worker.complete(first)
        assert job_row(ledger, new.id).merge_id is None
        worker.complete(second)
        job = job_row(ledger, new.id)
        assert (job.status, job.open_count, job.completed_count) == (Status.RUNNING, 0, 2)
        assert job.merge_id == member_id(new.id, Role.MERGE, 1)
        clock.advance(1)
        merge = worker.take("merge")
        assert (merge.id, merge.role, merge.job_id) == (job.merge_id, Role.MERGE, new.id)
        worker.complete(merge, result_blob=blob(1))
        job = job_row(ledger, new.id)
        assert (job.status, job.finished_at, job.error_class) == (Status.COMPLETED, clock.now(), None)
        names = event_names(ledger, new.id)
        assert names[:2] == ["job_created", "job_running"]
        assert sorted(names[2:4]) == ["chunk_completed", "chunk_completed"]
        assert names[4:] == ["all_chunks_completed_merging", "job_completed"]

    def test_a_job_without_a_merge_ends_with_its_last_chunk(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(2, merge=False)
        put(ledger, new)
        for task in worker.claim(2):
            worker.complete(task)
        job = job_row(ledger, new.id)
        assert (job.status, job.merge_id) == (Status.COMPLETED, None)
        assert len(all_tasks(ledger, new.id)) == 2

    def test_chunks_that_end_in_one_exchange_make_one_merge(self, ledger: Ledger, worker: Worker) -> None:
        jobs = [job_of(3), job_of(1), job_of(2)]
        put(ledger, *jobs)
        worker.exchange(settles=[worker.ending(task, Completed()) for task in worker.claim(9)])
        for new in jobs:
            roles = [task.role for task in all_tasks(ledger, new.id)]
            assert roles.count(Role.MERGE) == 1
        assert len(worker.claim(9, "merge")) == 3

    def test_the_last_of_many_chunks_is_found_whatever_the_order(
        self, ledger: Ledger, worker: Worker, other: Worker
    ) -> None:
        new = job_of(9)
        put(ledger, new)
        mine, theirs = worker.claim(5), other.claim(4)
        for index, task in enumerate([*reversed(mine), *theirs]):
            assert job_row(ledger, new.id).merge_id is None, f"merged after {index} of 9"
            (worker if task in mine else other).complete(task)
        assert len(worker.claim(9, "merge")) == 1

    def test_a_failed_chunk_leaves_its_siblings_alone(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(4)
        put(ledger, new)
        worker.fail(worker.take())
        job = job_row(ledger, new.id)
        assert (job.status, job.failed_count, job.open_count) == (Status.RUNNING, 1, 3)
        for task in worker.claim(9):
            assert not worker.complete(task).fenced
        assert statuses(ledger, new.id) == [Status.FAILED, *[Status.COMPLETED] * 3]
        assert job_row(ledger, new.id).status is Status.FAILED

    def test_a_failed_job_names_every_failed_chunk(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        new = job_of(7)
        put(ledger, new)
        for task in worker.claim(7):
            if task.chunk_index in {1, 2, 3, 5}:
                worker.fail(task, "invalid_pdf", "no pages" if task.chunk_index != 5 else "torn")
            else:
                worker.complete(task)
        job = job_row(ledger, new.id)
        assert (job.status, job.error_class, job.finished_at) == (Status.FAILED, "ocr_failed", clock.now())
        assert job.error_text is not None
        for part in ("4 of 7", "1-3", "invalid_pdf", "no pages", "5", "torn"):
            assert part in job.error_text
        assert job.merge_id is None
        assert event_names(ledger, new.id)[-1] == "job_failed"

    def test_chunks_that_fail_in_one_exchange_are_all_named(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(3)
        put(ledger, new)
        outcomes = [Failed(error_class="invalid_pdf", text=f"reason {n}") for n in range(3)]
        worker.exchange(settles=[worker.ending(t, o) for t, o in zip(worker.claim(3), outcomes, strict=True)])
        text = job_row(ledger, new.id).error_text or ""
        assert [n for n in range(3) if f"chunk {n}" in text and f"reason {n}" in text] == [0, 1, 2]
        assert event_names(ledger, new.id).count("job_failed") == 1

    def test_holes_are_merged_over_where_they_are_allowed(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(3, allow_holes=True)
        put(ledger, new)
        for task in worker.claim(3):
            if task.chunk_index:
                worker.fail(task)
            else:
                worker.complete(task)
        worker.complete(worker.take("merge"))
        job = job_row(ledger, new.id)
        assert (job.status, job.completed_count, job.failed_count) == (Status.COMPLETED, 1, 2)

    def test_holes_alone_are_not_merged(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(2, allow_holes=True)
        put(ledger, new)
        for task in worker.claim(2):
            worker.fail(task)
        job = job_row(ledger, new.id)
        assert (job.status, job.merge_id) == (Status.FAILED, None)

    def test_a_failed_merge_fails_its_job(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(1)
        put(ledger, new)
        worker.complete(worker.take())
        merge = worker.take("merge")
        worker.settle(merge, Failed(error_class="timeout", text="60 s", delay_s=0))
        assert job_row(ledger, new.id).status is Status.RUNNING
        worker.fail(worker.take("merge"), "bug", "boom")
        job = job_row(ledger, new.id)
        assert (job.status, job.error_class) == (Status.FAILED, "ocr_failed")
        assert "boom" in (job.error_text or "")

    def test_a_split_brings_its_chunks_in_the_same_step(self, ledger: Ledger, worker: Worker) -> None:
        new = split_job(tenant="acme")
        put(ledger, new)
        split = worker.take("split")
        assert job_row(ledger, new.id).status is Status.RUNNING
        worker.complete(split, follow_ups=[chunk(0), chunk(1), chunk(2)])
        job = job_row(ledger, new.id)
        assert (job.chunk_count, job.open_count, job.merge_id) == (3, 3, None)
        chunks = worker.claim(9)
        assert [task.chunk_index for task in chunks] == [0, 1, 2]
        assert {task.tenant for task in chunks} == {"acme"}
        assert [task.id for task in chunks] == [member_id(new.id, Role.CHUNK, index) for index in range(3)]
        worker.exchange(settles=[worker.ending(task, Completed()) for task in chunks])
        worker.complete(worker.take("merge"))
        assert job_row(ledger, new.id).status is Status.COMPLETED

    def test_a_split_without_chunks_goes_on_to_the_merge(self, ledger: Ledger, worker: Worker) -> None:
        new = split_job()
        put(ledger, new)
        worker.complete(worker.take("split"))
        worker.complete(worker.take("merge"))
        assert job_row(ledger, new.id).status is Status.COMPLETED

    def test_a_failed_split_fails_its_job(self, ledger: Ledger, worker: Worker) -> None:
        new = split_job()
        put(ledger, new)
        worker.fail(worker.take("split"), "encrypted", "needs a password")
        job = job_row(ledger, new.id)
        assert (job.status, job.error_class) == (Status.FAILED, "ocr_failed")
        assert "needs a password" in (job.error_text or "")

    def test_a_chunk_may_bring_smaller_ones_that_the_merge_waits_for(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(2)
        put(ledger, new)
        first, second = worker.claim(2)
        worker.complete(first)
        worker.complete(second, follow_ups=[chunk(2), chunk(3)])
        job = job_row(ledger, new.id)
        assert (job.chunk_count, job.open_count, job.merge_id) == (4, 2, None)
        for task in worker.claim(9):
            worker.complete(task)
        assert len(worker.claim(9, "merge")) == 1

    def test_follow_ups_are_made_once_and_not_waited_for(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(1)
        put(ledger, new)
        worker.complete(worker.take(), follow_ups=[follow("chunk done"), follow("chunk seen")])
        first = worker.take("notify")
        worker.complete(first)
        worker.complete(
            worker.take("merge"), follow_ups=[follow("job done"), follow("chunk done"), follow("chunk seen")]
        )
        job = job_row(ledger, new.id)
        assert (job.status, job.chunk_count, job.completed_count) == (Status.COMPLETED, 1, 1)
        told = worker.claim(9, "notify")
        assert {task.role for task in (first, *told)} == {Role.FOLLOW}
        assert sorted(str(task.payload) for task in (first, *told)) == [
            "{'key': 'chunk done'}",
            "{'key': 'chunk seen'}",
            "{'key': 'job done'}",
        ]
        worker.fail(told[0])
        worker.complete(told[1])
        assert stored(ledger, first.id).status is Status.COMPLETED
        assert job_row(ledger, new.id).status is Status.COMPLETED

    def test_what_else_waits_in_the_ledger_does_not_matter_to_a_job(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(1)
        put(ledger, lone(1, delay_s=1000), new, job_of(5))
        task = next(task for task in worker.claim(9) if task.job_id == new.id)
        worker.complete(task)
        assert [merge.job_id for merge in worker.claim(9, "merge")] == [new.id]
        assert stored(ledger, task.id).status is Status.COMPLETED
