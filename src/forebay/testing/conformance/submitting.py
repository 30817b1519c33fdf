"""Promises of submit: stored once, found again by id or key, answered item by item."""

from __future__ import annotations

import pytest

from forebay.clock import ManualClock
from forebay.errors import BadInput
from forebay.model.bulk import Bulk
from forebay.model.exchange import Submitted
from forebay.model.job import NewJob
from forebay.model.payload import encode
from forebay.model.task import NewTask, Role, Status
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, event_names, everything, job_row, put, stored
from forebay.testing.invariants import all_tasks
from forebay.testing.workers import BLOB, Worker, action, blob, chunk, job_of, lone, split_job


class SubmitPromises(LedgerCase):
    def test_a_task_is_stored_as_it_was_given(self, ledger: Ledger, clock: ManualClock) -> None:
        new = lone(
            {"url": "https://example.com/ä", "pages": [1, 2.5, None, True]},
            limit="adobe",
            tenant="acme",
            priority=7,
            deadline_at=clock.now() + 500,
            timeout_s=12.5,
            max_retries=2,
            max_reschedules=9,
            payload_blob=BLOB,
            tags=("red", "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n"),
        )
        put(ledger, new)
        task = stored(ledger, new.id)
        assert task.payload == {"url": "https://example.com/ä", "pages": [1, 2.5, None, True]}
        assert (task.kind, task.lane, task.tenant, task.role) == ("work", "work@adobe", "acme", Role.LONE)
        assert (task.status, task.claim_count, task.attempt_count) == (Status.PENDING, 0, 0)
        assert (task.priority, task.timeout_s, task.deadline_at) == (7, 12.5, clock.now() + 500)
        assert (task.max_retries, task.max_reschedules) == (2, 9)
        assert (task.payload_blob, task.tags) == (BLOB, ("red", "grün"))
        assert (task.created_at, task.available_at, task.job_id) == (clock.now(), clock.now(), None)
        assert ledger.history(new.id) == []

    def test_the_same_id_again_is_the_same_task(self, ledger: Ledger) -> None:
        new = lone({"a": 1})
        put(ledger, new)
        before = everything(ledger)
        assert ledger.submit([new]) == [Submitted(new.id, "existing")]
        assert everything(ledger) == before

    def test_the_same_key_and_payload_give_the_same_task(self, ledger: Ledger) -> None:
        first = lone({"a": 1, "b": 2}, idempotency_key="order 17")
        again = lone({"b": 2, "a": 1}, idempotency_key="order 17")
        assert first.id == again.id
        assert ledger.submit([first]) == [Submitted(first.id, "created")]
        assert ledger.submit([again]) == [Submitted(first.id, "existing")]
        assert len(all_tasks(ledger)) == 1

    def test_the_same_key_with_another_payload_is_a_conflict_and_changes_nothing(self, ledger: Ledger) -> None:
        first = lone({"a": 1}, idempotency_key="order 17")
        put(ledger, first)
        before = everything(ledger)
        assert ledger.submit([lone({"a": 2}, idempotency_key="order 17")]) == [Submitted(first.id, "conflict")]
        assert everything(ledger) == before

    def test_a_key_belongs_to_its_tenant_kind_and_environment(self, ledger: Ledger) -> None:
        ids = put(
            ledger,
            lone(1, idempotency_key="k"),
            lone(2, idempotency_key="k", tenant="acme"),
            lone(3, idempotency_key="k", kind="other"),
            lone(4, idempotency_key="k", environment="prod"),
        )
        assert len(set(ids)) == 4

    def test_a_key_is_found_again_after_its_task_has_ended(self, ledger: Ledger, worker: Worker) -> None:
        new = lone(1, idempotency_key="k")
        put(ledger, new)
        worker.complete(worker.take())
        assert ledger.submit([lone(1, idempotency_key="k")]) == [Submitted(new.id, "existing")]
        assert stored(ledger, new.id).status is Status.COMPLETED
        assert worker.claim() == ()

    def test_the_key_of_a_deleted_task_is_free_again(self, ledger: Ledger) -> None:
        new = lone(1, idempotency_key="k")
        put(ledger, new)
        ledger.delete([new.id], action())
        assert ledger.submit([lone(2, idempotency_key="k")]) == [Submitted(new.id, "created")]
        assert stored(ledger, new.id).payload == 2

    def test_a_batch_is_answered_item_by_item_in_its_order(self, ledger: Ledger) -> None:
        old = lone(1, idempotency_key="old")
        put(ledger, old)
        new, job = lone(2), job_of(2, idempotency_key="job")
        batch: list[NewTask | NewJob] = [
            new,
            lone(9, idempotency_key="old"),
            job,
            old,
            new,
            job_of(3, idempotency_key="job"),
        ]
        assert ledger.submit(batch) == [
            Submitted(new.id, "created"),
            Submitted(old.id, "conflict"),
            Submitted(job.id, "created"),
            Submitted(old.id, "existing"),
            Submitted(new.id, "existing"),
            Submitted(job.id, "conflict"),
        ]
        assert len(all_tasks(ledger)) == 4

    def test_a_large_batch_is_stored_whole(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n) for n in range(self.many)))
        assert ledger.count() == {("work", Status.PENDING): self.many}
        claims = [*worker.claim(1000), *worker.claim(1000)]
        assert [task.payload for task in claims] == [*range(self.many)]

    def test_a_bulk_is_stored_as_its_tasks_by_themselves_would_be(self, ledger: Ledger, worker: Worker) -> None:
        bulk = Bulk(lone({}, limit="adobe", tags=("red",)), [encode({"page": page}) for page in range(self.many)])
        assert ledger.submit(bulk) == [Submitted(each, "created") for each in bulk.ids]
        found = stored(ledger, bulk.ids[-2])
        alone = bulk[-2]
        assert (found.payload, found.lane, found.tags) == ({"page": self.many - 2}, "work@adobe", ("red",))
        assert (alone.id, alone.payload_json, alone.tags) == (found.id, found.payload_json, found.tags)
        assert len(all_tasks(ledger)) == self.many
        assert {task.id for task in worker.claim(3)} <= {*bulk.ids}

    @pytest.mark.parametrize("fairness_key", [None, "one"])
    def test_a_bulk_again_is_the_same_tasks(self, ledger: Ledger, fairness_key: str | None) -> None:
        bulk = Bulk(lone({}, fairness_key=fairness_key), [encode({"page": page}) for page in range(3)])
        ledger.submit(bulk)
        before = everything(ledger)
        assert ledger.submit(bulk) == [Submitted(each, "existing") for each in bulk.ids]
        assert everything(ledger) == before

    def test_an_empty_batch_is_answered_with_nothing(self, ledger: Ledger) -> None:
        assert ledger.submit([]) == []

    def test_a_job_is_stored_with_its_chunks(self, ledger: Ledger, clock: ManualClock) -> None:
        new = job_of(3, tenant="acme", document=BLOB, label="scan.pdf", tags=("red",))
        put(ledger, new)
        job = job_row(ledger, new.id)
        assert (job.pipeline, job.tenant, job.document, job.label) == ("ocr", "acme", BLOB, "scan.pdf")
        assert (job.tags, job.status, job.generation, job.created_at) == (("red",), Status.PENDING, 1, clock.now())
        assert (job.chunk_count, job.open_count, job.running_count, job.merge_id) == (3, 3, 0, None)
        chunks = all_tasks(ledger, new.id)
        assert [task.chunk_index for task in chunks] == [0, 1, 2]
        assert {(task.job_id, task.role, task.tenant) for task in chunks} == {(new.id, Role.CHUNK, "acme")}
        assert [stored(ledger, task.id).payload for task in chunks] == [{"chunk": index} for index in range(3)]
        assert event_names(ledger, new.id) == ["job_created"]

    def test_a_job_that_starts_with_a_split_has_no_chunks_yet(self, ledger: Ledger) -> None:
        new = split_job()
        put(ledger, new)
        assert job_row(ledger, new.id).chunk_count == 0
        assert [task.role for task in all_tasks(ledger, new.id)] == [Role.SPLIT]

    def test_a_job_is_found_again_by_its_key(self, ledger: Ledger) -> None:
        first = job_of(2, idempotency_key="scan", document=BLOB)
        put(ledger, first)
        before = everything(ledger)
        assert ledger.submit([job_of(2, idempotency_key="scan", document=BLOB)]) == [Submitted(first.id, "existing")]
        assert ledger.submit([job_of(2, idempotency_key="scan")]) == [Submitted(first.id, "conflict")]
        assert everything(ledger) == before

    def test_a_chunk_cannot_be_submitted_without_its_job(self, ledger: Ledger) -> None:
        with pytest.raises(BadInput):
            ledger.submit([chunk(0)])
        assert all_tasks(ledger) == []

    def test_what_was_accepted_is_there_after_reopening(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        job, task = job_of(2), lone({"a": 1}, idempotency_key="k", delay_s=60)
        put(ledger, job, task)
        claimed = worker.take()
        before = everything(ledger)
        ledger = self.reopened(ledger, clock)
        assert everything(ledger) == before
        assert ledger.mine(worker.id) == [claimed]
        assert ledger.submit([job, task]) == [Submitted(job.id, "existing"), Submitted(task.id, "existing")]

    def test_a_key_that_comes_again_for_other_work_is_a_conflict(self, ledger: Ledger) -> None:
        put(ledger, lone(1, idempotency_key="task", payload_blob=blob(1)))
        assert ledger.submit([lone(1, idempotency_key="task", payload_blob=blob(2))])[0].outcome == "conflict"
        put(ledger, job_of(2, idempotency_key="job"))
        for other in (
            job_of(2, idempotency_key="job", merge=False),
            NewJob(pipeline="ocr", tasks=(chunk(0), chunk(2)), idempotency_key="job", merge=job_of(1).merge),
        ):
            assert other.id == job_of(2, idempotency_key="job").id
            assert ledger.submit([other])[0].outcome == "conflict"
