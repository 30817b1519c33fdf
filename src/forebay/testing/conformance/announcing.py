"""Promises of callbacks: however a job ends, its callback is stored in the same step, once, whatever else happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from forebay import ids
from forebay.clock import ManualClock
from forebay.errors import Conflict
from forebay.model.callback import KIND, Endpoint
from forebay.model.job import NewJob
from forebay.model.outcome import Completed, Failed
from forebay.model.task import Role, Status, Task
from forebay.rules.settlement import MAX_LOST
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, job_row, put, stored
from forebay.testing.invariants import all_tasks
from forebay.testing.workers import ENDPOINT, Worker, action, blob, callback, job_of, split_job


def _callbacks(ledger: Ledger, job_id: str) -> list[Task]:
    return [stored(ledger, task.id) for task in all_tasks(ledger, job_id) if task.kind == KIND]


def _bodies(ledger: Ledger, job_id: str) -> list[Mapping[str, Any]]:
    payloads = [cast("Mapping[str, Any]", task.payload) for task in _callbacks(ledger, job_id)]
    return sorted((each["body"] for each in payloads), key=lambda body: body["data"]["sequence"])


def _told(ledger: Ledger, job_id: str) -> list[str]:
    return [body["type"] for body in _bodies(ledger, job_id)]


class CallbackPromises(LedgerCase):
    def _announced(self, ledger: Ledger, new: NewJob) -> str:
        told = replace(new, callback=callback())
        put(ledger, told)
        return told.id

    def test_a_completed_merge_leaves_the_callback_of_its_job(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        job_id = self._announced(ledger, job_of(2, label="scan.pdf", tenant="acme"))
        for task in worker.claim(2):
            worker.complete(task)
        assert _told(ledger, job_id) == []
        clock.advance(5)
        worker.complete(worker.take("merge"))
        (task,) = _callbacks(ledger, job_id)
        assert (task.role, task.lane, task.tenant, task.status) == (
            Role.FOLLOW,
            f"{KIND}@h-example",
            "acme",
            Status.PENDING,
        )
        last = ledger.events(job_id)[-1]
        assert task.payload == {
            "endpoint": ENDPOINT,
            "url": "https://example.com/hook",
            "body": {
                "type": "job.completed",
                "timestamp": "2027-01-15T08:00:05.000Z",
                "data": {
                    "job_id": job_id,
                    "pipeline": "ocr",
                    "label": "scan.pdf",
                    "generation": 1,
                    "sequence": last.number,
                    "status": "completed",
                    "error_class": None,
                    "chunk_count": 2,
                    "completed_count": 2,
                    "failed_count": 0,
                    "links": {
                        "job": f"https://forebay.test/v1/jobs/{job_id}",
                        "result": f"https://forebay.test/v1/jobs/{job_id}/result",
                    },
                },
            },
        }
        assert last.name == "job_completed"

    def test_a_job_without_callback_leaves_none(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(1)
        put(ledger, new)
        worker.complete(worker.take())
        worker.complete(worker.take("merge"))
        assert _callbacks(ledger, new.id) == []

    def test_the_last_chunk_leaves_it_where_nothing_is_merged(self, ledger: Ledger, worker: Worker) -> None:
        job_id = self._announced(ledger, job_of(3, merge=False))
        worker.exchange(settles=[worker.ending(task, Completed()) for task in worker.claim(3)])
        assert _told(ledger, job_id) == ["job.completed"]

    def test_jobs_that_end_in_one_exchange_leave_one_each(self, ledger: Ledger, worker: Worker) -> None:
        made = [self._announced(ledger, job_of(2, merge=False)) for _ in range(3)]
        worker.exchange(settles=[worker.ending(task, Completed()) for task in worker.claim(6)])
        assert [_told(ledger, job_id) for job_id in made] == [["job.completed"]] * 3
        assert len(worker.claim(9, KIND)) == 3

    def test_failed_chunks_split_and_merge_leave_it(self, ledger: Ledger, worker: Worker) -> None:
        by_chunk = self._announced(ledger, job_of(2))
        first, second = worker.claim(2)
        worker.fail(first)
        assert _told(ledger, by_chunk) == []
        worker.complete(second)
        by_split = self._announced(ledger, split_job())
        worker.fail(worker.take("split"), "encrypted", "needs a password")
        by_merge = self._announced(ledger, job_of(1))
        worker.complete(worker.take())
        worker.fail(worker.take("merge"), "bug", "boom")
        for job_id in (by_chunk, by_split, by_merge):
            (body,) = _bodies(ledger, job_id)
            assert (body["type"], body["data"]["error_class"]) == ("job.failed", "ocr_failed")
            assert list(body["data"]["links"]) == ["job"]

    def test_an_empty_split_of_a_job_without_merge_leaves_it(self, ledger: Ledger, worker: Worker) -> None:
        job_id = self._announced(ledger, replace(split_job(), merge=None))
        worker.complete(worker.take("split"))
        assert _told(ledger, job_id) == ["job.completed"]

    def test_a_cancel_of_what_waits_leaves_it_at_once(self, ledger: Ledger) -> None:
        made = [self._announced(ledger, job_of(3)), self._announced(ledger, split_job())]
        ledger.cancel(made, action())
        assert [_told(ledger, job_id) for job_id in made] == [["job.canceled"]] * 2

    def test_a_cancel_of_what_runs_leaves_it_when_the_attempt_stops(self, ledger: Ledger, worker: Worker) -> None:
        stopped, retried, handed_back = [self._announced(ledger, job_of(1)) for _ in range(3)]
        tasks = {task.job_id: task for task in worker.claim(3)}
        ledger.cancel([stopped, retried, handed_back], action())
        assert _told(ledger, stopped) == []
        worker.stop(tasks[stopped])
        worker.settle(tasks[retried], Failed(error_class="timeout", text="60 s"))
        worker.release(tasks[handed_back])
        for job_id in (stopped, retried, handed_back):
            assert _told(ledger, job_id) == ["job.canceled"]

    def test_the_last_chunk_canceled_alone_fails_its_job_and_leaves_it(self, ledger: Ledger, worker: Worker) -> None:
        job_id = self._announced(ledger, job_of(2))
        first = worker.take()
        worker.complete(first)
        left = next(task.id for task in all_tasks(ledger, job_id) if task.id != first.id)
        ledger.cancel([left], action())
        assert _told(ledger, job_id) == ["job.failed"]

    def test_a_rescue_that_ends_a_job_leaves_it(
        self, ledger: Ledger, clock: ManualClock, worker: Worker, other: Worker
    ) -> None:
        canceled = self._announced(ledger, job_of(1))
        worker.take()
        ledger.cancel([canceled], action())
        clock.advance(20)
        ledger.rescue()
        assert _told(ledger, canceled) == ["job.canceled"]
        poison = self._announced(ledger, job_of(1))
        for _ in range(MAX_LOST):
            assert _told(ledger, poison) == []
            other.take()
            clock.advance(200)
            ledger.renew(other.id)
            ledger.rescue()
        assert job_row(ledger, poison).status is Status.FAILED
        assert _told(ledger, poison) == ["job.failed"]

    def test_the_end_of_a_session_that_ends_a_job_leaves_it(self, ledger: Ledger, worker: Worker) -> None:
        job_id = self._announced(ledger, job_of(1))
        worker.complete(worker.take())
        worker.take("merge")
        ledger.cancel([job_id], action())
        ledger.close_session(worker.id)
        assert _told(ledger, job_id) == ["job.canceled"]

    def test_each_end_of_a_job_has_a_callback_of_its_own(self, ledger: Ledger, worker: Worker) -> None:
        job_id = self._announced(ledger, job_of(1))
        worker.fail(worker.take())
        ledger.retry([job_id], action())
        assert _told(ledger, job_id) == ["job.failed"]
        worker.fail(worker.take())
        ledger.retry([job_id], action())
        again = worker.take()
        worker.complete(again, result_blob=blob(1))
        worker.complete(worker.take("merge"))
        ledger.lose_result(again.id, blob(1), action())
        worker.complete(worker.take())
        worker.complete(worker.take("merge"))
        assert _told(ledger, job_id) == ["job.failed", "job.failed", "job.completed", "job.completed"]
        numbers = {event.number: event.name for event in ledger.events(job_id)}
        for body in _bodies(ledger, job_id):
            assert numbers[body["data"]["sequence"]] == body["type"].replace(".", "_")
        assert len({task.id for task in _callbacks(ledger, job_id)}) == 4

    def test_a_settle_that_comes_twice_or_late_leaves_no_second_one(
        self, ledger: Ledger, clock: ManualClock, worker: Worker, other: Worker
    ) -> None:
        job_id = self._announced(ledger, job_of(1, merge=False))
        late = worker.take()
        clock.advance(20)
        ledger.rescue()
        settle = other.ending(other.take(), Completed())
        other.exchange(settles=[settle])
        other.exchange(settles=[settle, settle])
        worker.complete(late)
        assert _told(ledger, job_id) == ["job.completed"]

    def test_chunks_are_told_of_where_that_was_asked_for(self, ledger: Ledger, worker: Worker) -> None:
        new = replace(job_of(3), callback=callback(each=True))
        put(ledger, new)
        first, second, third = worker.claim(3)
        worker.complete(first)
        assert _told(ledger, new.id) == ["chunk.completed"]
        worker.exchange(
            settles=[
                worker.ending(second, Failed(error_class="bad_response", text="no pages", permanent=True)),
                worker.ending(third, Completed()),
            ]
        )
        bodies = _bodies(ledger, new.id)
        assert sorted(body["type"] for body in bodies[:3]) == ["chunk.completed", "chunk.completed", "chunk.failed"]
        assert [body["type"] for body in bodies[3:]] == ["job.failed"]
        told = {body["data"]["chunk_index"]: body["data"] for body in bodies[:3]}
        assert told.keys() == {first.chunk_index, second.chunk_index, third.chunk_index}
        assert told[second.chunk_index or 0]["error_class"] == "bad_response"
        sequences = [body["data"]["sequence"] for body in bodies]
        assert len({*sequences}) == 4
        ledger.retry([new.id], action())
        ledger.cancel([new.id], action())
        assert _told(ledger, new.id)[4:] == ["job.canceled"]

    def test_what_becomes_of_a_callback_changes_nothing_of_its_job(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        job_id = self._announced(ledger, job_of(1))
        worker.complete(worker.take())
        worker.complete(worker.take("merge"))
        before = job_row(ledger, job_id)
        worker.fail(worker.take(KIND), "refused", "gone")
        assert job_row(ledger, job_id) == before
        (dead,) = _callbacks(ledger, job_id)
        assert dead.status is Status.FAILED
        assert ledger.retry([dead.id], action(), force=True)[0].done
        again = worker.take(KIND)
        assert (again.id, again.payload) == (dead.id, dead.payload)
        clock.advance(1_000)
        ledger.rescue()
        assert job_row(ledger, job_id) == before
        assert ledger.cancel([job_id], action())[0].outcome == "already_completed"
        assert stored(ledger, dead.id).status is Status.PENDING

    def test_where_a_job_tells_its_callbacks_is_part_of_its_key(self, ledger: Ledger) -> None:
        new = job_of(1, idempotency_key="one")
        told = replace(new, callback=callback())
        assert ledger.submit([told])[0].outcome == "created"
        assert ledger.submit([replace(told, id="")])[0].outcome == "existing"
        assert ledger.submit([new])[0].outcome == "conflict"

    def test_an_endpoint_is_kept_and_changed_by_whoever_knows_its_last_version(
        self, ledger: Ledger, clock: ManualClock
    ) -> None:
        first = Endpoint(id=ENDPOINT, tenant="acme", url="https://example.com/hook", created_at=clock.now())
        assert ledger.endpoint(ENDPOINT) is None
        assert ledger.put_endpoint(first)
        assert not ledger.put_endpoint(first)
        rotated = replace(first, generation=2, rotated_at=clock.now() + 1, version=2)
        assert ledger.put_endpoint(rotated)
        assert not ledger.put_endpoint(replace(first, disabled_at=clock.now(), version=2))
        assert ledger.audit() == []
        other = replace(first, id=ids.derived_id("other"), tenant="default", created_at=clock.now() + 5)
        assert ledger.put_endpoint(other)
        ledger = self.reopened(ledger, clock)
        assert ledger.endpoint(ENDPOINT) == rotated
        assert ledger.endpoints() == [rotated, other]
        assert ledger.endpoints(tenant="default") == [other]
        disabled = replace(rotated, disabled_at=clock.now(), note="answered 410", version=3)
        assert ledger.put_endpoint(disabled)
        assert ledger.endpoints(tenant="acme") == [disabled]

    def test_who_has_a_secret_changed_leaves_a_line_once_and_only_if_it_was_changed(
        self, ledger: Ledger, clock: ManualClock
    ) -> None:
        first = Endpoint(id=ENDPOINT, tenant="acme", url="https://example.com/hook", created_at=clock.now())
        ledger.put_endpoint(first)
        rotated = replace(first, generation=2, rotated_at=clock.now(), version=2)
        rotating = action("bob", note="leaked", tenant="acme")
        assert ledger.put_endpoint(rotated, rotating)
        assert ledger.put_endpoint(rotated, rotating)
        assert not ledger.put_endpoint(rotated, action())
        (line,) = ledger.audit()
        assert (line.who, line.verb, line.targets, line.note) == ("bob", "rotate", (ENDPOINT,), "leaked")
        assert (line.tenant, line.at) == ("acme", clock.now())
        with pytest.raises(Conflict):
            ledger.put_endpoint(replace(first, id=ids.derived_id("other")), rotating)
        assert ledger.endpoints() == [rotated]
