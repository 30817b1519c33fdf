"""Promises of delete and prune: whole units go, nothing that runs, and nothing else with them."""

from __future__ import annotations

from forebay import ids
from forebay.clock import ManualClock
from forebay.model.exchange import Acted
from forebay.model.query import Query
from forebay.model.task import Status
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, put, stored
from forebay.testing.invariants import all_tasks
from forebay.testing.workers import Worker, action, follow, job_of, lone


class RemovalPromises(LedgerCase):
    def test_a_deleted_unit_is_gone_with_all_it_had(self, ledger: Ledger, worker: Worker, other: Worker) -> None:
        new = job_of(2)
        task_id, job_id, kept = put(ledger, lone(1), new, lone("kept"))
        claims = [task for task in worker.claim(9) if task.id != kept]
        for task in claims:
            worker.complete(task)
        ledger.close_session(worker.id)
        assert ledger.delete([task_id, job_id], action()) == [Acted(task_id, "done"), Acted(job_id, "done")]
        assert (ledger.get(task_id), ledger.get_job(job_id)) == (None, None)
        for task in claims:
            assert (ledger.get(task.id), ledger.history(task.id)) == (None, [])
        assert ledger.events(job_id) == []
        assert ledger.list_jobs(Query()).items == ()
        assert [task.id for task in all_tasks(ledger)] == [kept]
        assert ledger.find(job_id) == []
        assert other.claim(9, "merge") == ()
        assert [task.id for task in other.claim(9)] == [kept]

    def test_waiting_units_can_be_deleted(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        job, ready, later = put(ledger, job_of(3), lone(1), lone(2, delay_s=5))
        assert [acted.outcome for acted in ledger.delete([job, ready, later], action())] == ["done"] * 3
        clock.advance(10)
        reply = worker.exchange(wants=[])
        assert (worker.claim(9), reply.next_due_in_s) == ((), None)

    def test_what_runs_is_not_deleted(self, ledger: Ledger, worker: Worker) -> None:
        job_id, task_id = put(ledger, job_of(3), lone(1))
        claims = worker.claim(9)
        worker.complete(claims[0])
        answer = ledger.delete([job_id, task_id], action())
        assert {acted.outcome for acted in answer} == {"running"}
        for task in claims[1:]:
            assert not worker.complete(task).fenced

    def test_a_part_of_a_job_is_not_deleted_alone(self, ledger: Ledger) -> None:
        (job_id,) = put(ledger, job_of(2))
        first, _ = all_tasks(ledger, job_id)
        (refused,) = ledger.delete([first.id], action())
        assert refused.outcome == "part_of_job"
        assert job_id in refused.text
        assert stored(ledger, first.id).status is Status.PENDING

    def test_deleting_what_is_not_there_says_so(self, ledger: Ledger) -> None:
        (task_id,) = put(ledger, lone(1))
        ledger.delete([task_id], action())
        unknown = ids.random_id()
        assert [a.outcome for a in ledger.delete([task_id, unknown], action())] == ["not_found", "not_found"]

    def test_a_repeated_delete_is_answered_alike_and_spares_what_came_since(self, ledger: Ledger) -> None:
        new = lone(1, idempotency_key="k")
        put(ledger, new)
        asked = action()
        answer = ledger.delete([new.id], asked)
        put(ledger, new)
        assert ledger.delete([new.id], asked) == answer
        assert stored(ledger, new.id).status is Status.PENDING

    def test_pruning_takes_units_that_ended_longer_ago_than_allowed(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        done, failed, canceled, waiting, running = put(ledger, *(lone(n) for n in range(5)))
        claims = {task.id: task for task in worker.claim(3)}
        worker.complete(claims[done])
        worker.fail(claims[failed])
        ledger.cancel([canceled, waiting], action())
        worker.stop(claims[canceled])
        ledger.retry([waiting], action())
        worker.take()
        clock.advance(100)
        assert ledger.prune({Status.COMPLETED: 100, Status.FAILED: 99, Status.PENDING: 0}, action()) == 1
        assert ledger.get(failed) is None
        clock.advance(1)
        assert ledger.prune({Status.COMPLETED: 100, Status.RUNNING: 0, Status.PENDING: 0}, action()) == 1
        assert {task.id for task in all_tasks(ledger)} == {canceled, waiting, running}
        assert ledger.prune({Status.CANCELED: 0}, action()) == 1
        assert ledger.prune({}, action()) == 0
        assert {task.id for task in all_tasks(ledger)} == {waiting, running}

    def test_a_job_is_pruned_whole_by_its_own_status(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        over, going = put(ledger, job_of(2), job_of(2))
        for task in worker.claim(9):
            if task.job_id == over:
                worker.fail(task)
            elif task.chunk_index == 0:
                worker.complete(task)
        clock.advance(10)
        assert ledger.prune({Status.COMPLETED: 0}, action()) == 0
        assert ledger.prune({Status.FAILED: 5}, action()) == 1
        assert {task.job_id for task in all_tasks(ledger)} == {going}
        assert ledger.get_job(over) is None

    def test_pruning_goes_on_until_nothing_is_left(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        put(ledger, *(lone(n) for n in range(5)))
        for task in worker.claim(5):
            worker.complete(task)
        clock.advance(10)
        asked = [action() for _ in range(4)]
        assert [ledger.prune({Status.COMPLETED: 5}, each, most=2) for each in asked] == [2, 2, 1, 0]
        assert [(row.verb, row.target_count) for row in ledger.audit()] == [("prune", 1), ("prune", 2), ("prune", 2)]

    def test_a_repeated_prune_takes_only_what_is_old(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        put(ledger, lone("old"))
        worker.complete(worker.take())
        clock.advance(10)
        asked = action()
        ledger.prune({Status.COMPLETED: 5}, asked)
        (young,) = put(ledger, lone("young"))
        worker.complete(worker.take())
        ledger.prune({Status.COMPLETED: 5}, asked)
        assert stored(ledger, young).status is Status.COMPLETED
        assert len(ledger.audit()) == 1

    def test_a_job_with_an_open_follow_up_is_not_pruned(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        job = job_of(1, merge=False)
        put(ledger, job)
        worker.complete(worker.take(), follow_ups=[follow("told")])
        clock.advance(100)
        assert ledger.prune({Status.COMPLETED: 10}, action()) == 0
        worker.complete(worker.take(follow("told").kind))
        assert ledger.prune({Status.COMPLETED: 10}, action()) == 1

    def test_an_id_that_stands_twice_in_an_action_is_answered_alike(self, ledger: Ledger) -> None:
        (task_id,) = put(ledger, lone(1))
        assert [one.outcome for one in ledger.cancel([task_id, task_id], action())] == ["done", "done"]
