"""Promises of the fence: a write counts only under the task's current lease token."""

from __future__ import annotations

from dataclasses import replace

from forebay import ids
from forebay.clock import ManualClock
from forebay.model.exchange import Hold, Release, Settle
from forebay.model.job import Event
from forebay.model.outcome import Completed, Failed
from forebay.model.task import NewTask, Status, Task
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, everything, put, stored
from forebay.testing.workers import Worker, action, blob, chunk, follow, job_of, lone, usage

LATE = Completed(
    result_json='"late"',
    result_blob=blob(666),
    usage=(usage(66),),
    events=(Event(name="late"),),
    follow_ups=(follow("late"), chunk(66)),
)


def _late(task: Task) -> Completed:
    return LATE if task.job_id else replace(LATE, follow_ups=())


class FencePromises(LedgerCase):
    def _nothing_changes(self, ledger: Ledger, worker: Worker, task: Task) -> None:
        before = everything(ledger)
        assert worker.settle(task, _late(task)).fenced
        assert worker.settle(task, _late(task)).fenced
        worker.release(task, started=True)
        ledger.renew(worker.id, [Hold(task.id, task.claim_count, 10_000, task.job_id)])
        assert everything(ledger) == before

    def test_a_late_settle_after_a_rescue_changes_nothing(
        self, ledger: Ledger, clock: ManualClock, worker: Worker, other: Worker
    ) -> None:
        put(ledger, job_of(2))
        late = worker.take()
        clock.advance(16)
        assert ledger.rescue() == [late.id]
        self._nothing_changes(ledger, worker, late)
        newer = other.take()
        assert (newer.id, newer.claim_count) == (late.id, late.claim_count + 1)
        self._nothing_changes(ledger, worker, late)
        assert not other.complete(newer, result_blob=blob(1)).fenced
        self._nothing_changes(ledger, worker, late)
        assert stored(ledger, late.id).result_blob == blob(1)

    def test_a_late_settle_after_an_overdue_attempt_changes_nothing(
        self, ledger: Ledger, clock: ManualClock, other: Worker
    ) -> None:
        put(ledger, job_of(1))
        late = other.take()
        clock.advance(1000)
        assert ledger.rescue() == [late.id]
        newer = other.take()
        self._nothing_changes(ledger, other, late)
        assert not other.complete(newer).fenced

    def test_a_late_settle_after_a_release_changes_nothing(self, ledger: Ledger, worker: Worker, other: Worker) -> None:
        put(ledger, job_of(2))
        late = worker.take()
        worker.release(late)
        self._nothing_changes(ledger, worker, late)
        newer = other.take()
        self._nothing_changes(ledger, worker, late)
        other.fail(newer)
        self._nothing_changes(ledger, worker, late)
        assert stored(ledger, late.id).status is Status.FAILED

    def test_a_late_settle_after_cancel_and_rescue_changes_nothing(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        new = job_of(2)
        put(ledger, new)
        late = worker.take()
        ledger.cancel([new.id], action())
        clock.advance(16)
        ledger.rescue()
        assert stored(ledger, late.id).status is Status.CANCELED
        self._nothing_changes(ledger, worker, late)

    def test_a_late_settle_after_the_session_was_closed_changes_nothing(
        self, ledger: Ledger, worker: Worker, other: Worker
    ) -> None:
        put(ledger, lone(1))
        late = worker.take()
        ledger.close_session(worker.id)
        newer = other.take()
        self._nothing_changes(ledger, worker, late)
        other.complete(newer)

    def test_a_second_settle_of_the_same_attempt_does_not_replace_the_first(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        put(ledger, job_of(2))
        task = worker.take()
        worker.complete(task, result_blob=blob(1))
        before = everything(ledger)
        # Answered as the first one was: a repeat cannot be told from it. It must not count.
        worker.fail(task)
        worker.settle(task, _late(task))
        assert everything(ledger) == before

    def test_an_old_token_is_refused_in_a_later_generation(self, ledger: Ledger, worker: Worker, other: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        late = worker.take()
        worker.release(late)
        worker.fail(worker.take())
        ledger.retry([task_id], action())
        newer = other.take()
        assert newer.claim_count == 3
        self._nothing_changes(ledger, worker, late)
        other.complete(newer)

    def test_a_token_that_was_never_given_is_refused(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1))
        task = worker.take()
        for token in (0, 2, 10**9):
            self._nothing_changes(ledger, worker, task._replace(claim_count=token))
        assert not worker.complete(task).fenced

    def test_tokens_rise_with_every_claim_and_are_never_reset(
        self, ledger: Ledger, clock: ManualClock, other: Worker
    ) -> None:
        (task_id,) = put(ledger, lone(1))
        tokens = []
        for step in ("release", "rescue", "reschedule", "fail", "force", "complete", "lose", "close"):
            worker = Worker(ledger, clock)
            task = worker.take()
            tokens.append(task.claim_count)
            if step == "release":
                worker.release(task)
            elif step == "rescue":
                clock.advance(16)
                ledger.rescue()
            elif step == "reschedule":
                worker.reschedule(task, 0)
            elif step == "fail":
                worker.fail(task)
                ledger.retry([task_id], action())
            elif step == "force":
                worker.fail(task)
                ledger.retry([task_id], action(), force=True)
            elif step == "close":
                ledger.close_session(worker.id)
            else:
                worker.complete(task)
                ledger.lose_result(task_id, None, action())
        assert tokens == [1, 2, 3, 4, 5, 6, 7, 8]
        assert other.take().claim_count == 9

    def test_a_settle_of_an_unknown_task_is_answered_as_fenced(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1))
        real = worker.ending(worker.take(), Completed())
        made_up = [_of(real, ids.random_id(), None), _of(real, ids.random_id(), ids.random_id())]
        reply = worker.exchange(settles=[made_up[0], real, made_up[1]])
        assert [settled.fenced for settled in reply.settled] == [True, False, True]
        assert [settled.task_id for settled in reply.settled] == [made_up[0].task_id, real.task_id, made_up[1].task_id]
        worker.exchange(releases=[Release(ids.random_id(), 1), Release(ids.random_id(), 1, ids.random_id())])

    def test_a_settle_after_deletion_is_answered_as_fenced(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(1)
        put(ledger, new)
        late = worker.take()
        worker.release(late)
        assert ledger.delete([new.id], action())[0].done
        assert worker.settle(late, _late(late)).fenced
        assert ledger.get(late.id) is None

    def test_a_task_that_was_deleted_and_came_back_under_its_key_goes_on_with_its_tokens(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        (task_id,) = put(ledger, NewTask(kind="work", payload=1, idempotency_key="key"))
        late = worker.take()
        clock.advance(16)
        ledger.rescue()
        ledger.delete([task_id], action())
        put(ledger, NewTask(kind="work", payload=2, idempotency_key="key"))
        fresh = Worker(ledger, clock, "worker-3")
        newer = fresh.take()
        assert (newer.id, newer.claim_count) == (task_id, late.claim_count + 1)
        self._nothing_changes(ledger, worker, late)
        assert not fresh.settle(newer, Completed(result_json='"fresh"')).fenced
        stored = ledger.get(task_id)
        assert stored is not None
        assert stored.result == "fresh"

    def test_of_two_different_settles_under_one_token_only_one_is_said_to_be_written(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        put(ledger, lone(1))
        task = worker.take()
        settles = [worker.ending(task, Completed()), worker.ending(task, Failed(error_class="refused", text="no"))]
        assert [one.fenced for one in worker.exchange(settles=settles).settled] == [False, True]
        assert [one.fenced for one in worker.exchange(settles=settles).settled] == [False, True]

    def test_a_session_that_ended_still_settles_what_it_holds(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, lone(1), lone(2))
        claims = worker.claim(2)
        clock.advance(16)
        # One rescue too small for both: the session has ended, one of its claims is still its own.
        (gone,) = ledger.rescue(most=1)
        settles = [worker.ending(task, Completed()) for task in claims]
        reply = worker.exchange(settles=settles)
        assert not reply.alive
        assert {settled.task_id: settled.fenced for settled in reply.settled} == {
            task.id: task.id == gone for task in claims
        }
        (kept,) = (task.id for task in claims if task.id != gone)
        assert [past.worker for past in ledger.history(kept)] == [worker.name]


def _of(settle: Settle, task_id: str, job_id: str | None) -> Settle:
    return settle._replace(task_id=task_id, job_id=job_id)
