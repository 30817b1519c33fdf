"""Promises to a caller who got no answer: the same number again gives the same answer, and nothing twice."""

from __future__ import annotations

from forebay.clock import ManualClock
from forebay.model.exchange import Release, Settle, Want
from forebay.model.job import Event
from forebay.model.outcome import Completed, Failed
from forebay.model.task import Role, Status, Task
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, everything, job_row, put
from forebay.testing.invariants import all_tasks
from forebay.testing.workers import Worker, action, follow, job_of, lone, usage

WANT = [Want("work", 2)]


def _ids(tasks: tuple[Task, ...]) -> set[str]:
    return {task.id for task in tasks}


class RepeatPromises(LedgerCase):
    def test_a_repeated_exchange_gives_the_same_claims_and_takes_no_new_ones(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        put(ledger, *(lone(n) for n in range(9)))
        first = ledger.exchange(worker.id, 1, wants=WANT)
        before = everything(ledger)
        for _ in range(3):
            again = ledger.exchange(worker.id, 1, wants=WANT)
            assert sorted(again.claims, key=lambda task: task.id) == sorted(first.claims, key=lambda task: task.id)
        assert everything(ledger) == before
        assert not _ids(ledger.exchange(worker.id, 2, wants=WANT).claims) & _ids(first.claims)

    def test_a_repeat_gives_only_what_is_still_held(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        put(ledger, *(lone(n) for n in range(9)))
        first = ledger.exchange(worker.id, 1, wants=[Want("work", 3)]).claims
        settle = worker.ending(first[0], Completed())
        ledger.exchange(worker.id, 2, settles=[settle], releases=[Release(first[1].id, first[1].claim_count)])
        assert _ids(ledger.exchange(worker.id, 1, wants=[Want("work", 3)]).claims) == {first[2].id}
        clock.advance(16)
        ledger.rescue()
        late = ledger.exchange(worker.id, 1, wants=[Want("work", 3)])
        assert (late.claims, late.alive) == ((), False)

    def test_a_claim_of_a_later_exchange_is_not_in_the_repeat_of_an_older_one(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        put(ledger, lone(1))
        (task,) = ledger.exchange(worker.id, 1, wants=WANT).claims
        ledger.exchange(worker.id, 2, releases=[Release(task.id, task.claim_count)])
        (again,) = ledger.exchange(worker.id, 3, wants=WANT).claims
        assert again.id == task.id
        assert ledger.exchange(worker.id, 1, wants=WANT).claims == ()
        assert ledger.exchange(worker.id, 3, wants=WANT).claims == (again,)

    def test_a_late_duplicate_of_an_older_exchange_takes_nothing(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n) for n in range(9)))
        first, second, third = (ledger.exchange(worker.id, n, wants=WANT).claims for n in (1, 2, 3))
        before = everything(ledger)
        for n, claims in ((1, first), (2, second), (3, third), (1, first)):
            assert _ids(ledger.exchange(worker.id, n, wants=WANT).claims) == _ids(claims)
        assert everything(ledger) == before

    def test_the_repeat_of_an_exchange_that_found_nothing_tells_all_that_it_claims(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, lone(1, delay_s=5))
        assert ledger.exchange(worker.id, 1, wants=WANT).next_due_in_s == 5
        clock.advance(9)
        reply = ledger.exchange(worker.id, 1, wants=WANT)
        assert [task.id for task in reply.claims] == [task.id for task in ledger.mine(worker.id)]
        assert reply.claims or reply.lanes == {"work": ("work",)}
        again = ledger.exchange(worker.id, 1, wants=WANT)
        assert again.claims == reply.claims

    def test_a_repeated_settle_is_answered_alike_and_counts_once(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(2)
        put(ledger, new)
        done, failed = worker.claim(2)
        settles = [
            worker.ending(
                done,
                Completed(usage=(usage(3),), events=(Event(name="seen"),), follow_ups=(follow("told"),)),
            ),
            worker.ending(failed, Failed(error_class="timeout", text="60 s", delay_s=0)),
        ]
        first = worker.exchange(settles=settles)
        assert [settled.fenced for settled in first.settled] == [False, False]
        before = everything(ledger)
        assert ledger.exchange(worker.id, worker.n, settles=settles).settled == first.settled
        assert worker.exchange(settles=settles).settled == first.settled
        assert everything(ledger) == before

    def test_a_settle_is_answered_alike_after_the_task_moved_on(
        self, ledger: Ledger, worker: Worker, other: Worker
    ) -> None:
        (task_id,) = put(ledger, lone(1))
        task = worker.take()
        settle = worker.ending(task, Failed(error_class="timeout", text="60 s", delay_s=0))
        answer = worker.exchange(settles=[settle]).settled
        other.fail(other.take())
        ledger.retry([task_id], action())
        newest = other.take()
        before = everything(ledger)
        assert worker.exchange(settles=[settle]).settled == answer
        assert everything(ledger) == before
        assert not other.complete(newest).fenced

    def test_the_same_settle_twice_in_one_exchange_counts_once(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, job_of(2))
        settle = worker.ending(worker.take(), Completed(usage=(usage(1),)))
        reply = worker.exchange(settles=[settle, settle])
        assert [settled.fenced for settled in reply.settled] == [False, False]
        assert len(ledger.history(settle.task_id)) == 1
        assert ledger.used() == [usage(1)]

    def test_a_settle_goes_before_a_release_of_the_same_claim(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1))
        task = worker.take()
        release = Release(task.id, task.claim_count, started=True)
        reply = worker.exchange(settles=[worker.ending(task, Completed())], releases=[release])
        assert not reply.settled[0].fenced
        assert [past.outcome for past in ledger.history(task.id)] == ["completed"]

    def test_what_an_exchange_hands_in_it_may_take_again(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1), lone(2))
        one, two = worker.claim(2)
        settles: list[Settle] = [worker.ending(one, Failed(error_class="timeout", text="60 s", delay_s=0))]
        releases = [Release(two.id, two.claim_count)]
        reply = worker.exchange(settles=settles, releases=releases, wants=WANT)
        assert {task.id: task.claim_count for task in reply.claims} == {one.id: 2, two.id: 2}
        again = ledger.exchange(worker.id, worker.n, settles=settles, releases=releases, wants=WANT)
        assert (again.settled, _ids(again.claims)) == (reply.settled, _ids(reply.claims))
        assert {task.claim_count for task in ledger.mine(worker.id)} == {2}

    def test_numbers_count_per_session(self, ledger: Ledger, worker: Worker, other: Worker) -> None:
        put(ledger, lone(1), lone(2))
        assert len(ledger.exchange(worker.id, 1, wants=[Want("work", 1)]).claims) == 1
        assert len(ledger.exchange(other.id, 1, wants=[Want("work", 1)]).claims) == 1

    def test_the_last_chunk_settled_twice_makes_one_merge(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(2)
        put(ledger, new)
        settles = [worker.ending(task, Completed()) for task in worker.claim(2)]
        worker.exchange(settles=settles)
        for _ in range(3):
            worker.exchange(settles=settles)
        assert [task.role for task in all_tasks(ledger, new.id)].count(Role.MERGE) == 1
        worker.complete(worker.take("merge"))
        worker.exchange(settles=settles)
        assert job_row(ledger, new.id).status is Status.COMPLETED
        assert worker.claim(5, "merge") == ()

    def test_a_repeat_is_answered_alike_after_reopening(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, *(lone(n) for n in range(5)))
        settles = [worker.ending(task, Completed()) for task in worker.claim(2)]
        first = worker.exchange(settles=settles, wants=WANT)
        ledger = self.reopened(ledger, clock)
        before = everything(ledger)
        again = ledger.exchange(worker.id, worker.n, settles=settles, wants=WANT)
        assert (again.settled, _ids(again.claims)) == (first.settled, _ids(first.claims))
        assert everything(ledger) == before
