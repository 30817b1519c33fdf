"""Promises to threads: whatever they do at the same time, each task has one holder and each job one merge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from threading import Barrier
from typing import TypeVar

from forebay.clock import ManualClock
from forebay.model.exchange import Settled, Want
from forebay.model.task import Role, Status
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, job_row, put, stored
from forebay.testing.invariants import all_tasks
from forebay.testing.workers import Worker, action, job_of, lone

T = TypeVar("T")


def together(*steps: Callable[[], T]) -> list[T]:
    """Run the steps at the same time, each in a thread of its own."""
    start = Barrier(len(steps))

    def run(step: Callable[[], T]) -> T:
        start.wait(timeout=10)
        return step()

    with ThreadPoolExecutor(len(steps)) as pool:
        return [future.result(timeout=30) for future in [pool.submit(run, step) for step in steps]]


class RacePromises(LedgerCase):
    def test_threads_that_submit_the_same_key_get_one_task(self, ledger: Ledger) -> None:
        for n in range(10):
            tasks = [lone(n, idempotency_key=f"key {n}") for _ in range(4)]
            answers = [*chain(*together(*(partial(ledger.submit, [new]) for new in tasks)))]
            assert Counter(answer.outcome for answer in answers) == {"created": 1, "existing": 3}
            assert len({answer.id for answer in answers}) == 1
        assert len(all_tasks(ledger)) == 10

    def test_threads_that_submit_one_key_with_two_payloads_store_one_of_them(self, ledger: Ledger) -> None:
        jobs = [job_of(1, idempotency_key="k"), job_of(2, idempotency_key="k")]
        answers = [*chain(*together(*(partial(ledger.submit, [new]) for new in jobs)))]
        assert sorted(answer.outcome for answer in answers) == ["conflict", "created"]
        assert len(all_tasks(ledger)) in {1, 2}

    def test_threads_never_claim_the_same_task(self, ledger: Ledger, clock: ManualClock) -> None:
        put(ledger, *(lone(n) for n in range(120)))

        def drain(worker: Worker) -> list[str]:
            taken: list[str] = []
            while claims := worker.claim(7):
                taken += [task.id for task in claims]
                for task in claims:
                    assert not worker.complete(task).fenced
            return taken

        workers = [Worker(ledger, clock, f"worker-{n}") for n in range(4)]
        taken = [*chain(*together(*(partial(drain, worker) for worker in workers)))]
        assert len(taken) == len(set(taken)) == 120
        assert ledger.count() == {("work", Status.COMPLETED): 120}

    def test_chunks_that_end_at_the_same_time_make_one_merge(self, ledger: Ledger, clock: ManualClock) -> None:
        workers = [Worker(ledger, clock, f"worker-{n}") for n in range(4)]
        for _ in range(15):
            new = job_of(4)
            put(ledger, new)
            held = [(worker, worker.take()) for worker in workers]
            together(*(partial(worker.complete, task) for worker, task in held))
            merges = [task for task in all_tasks(ledger, new.id) if task.role is Role.MERGE]
            assert len(merges) == 1
            assert job_row(ledger, new.id).merge_id == merges[0].id

    def test_a_settle_and_a_rescue_at_the_same_time_end_the_attempt_once(
        self, ledger: Ledger, clock: ManualClock
    ) -> None:
        for _ in range(15):
            (task_id,) = put(ledger, lone(1))
            worker = Worker(ledger, clock)
            task = worker.take()
            clock.advance(200)
            steps: list[Callable[[], object]] = [partial(worker.complete, task), ledger.rescue]
            settled, rescued = together(*steps)
            assert isinstance(settled, Settled)
            fenced = settled.fenced
            # The settle also renews the session: the rescue finds nothing if it comes second.
            assert rescued == ([task_id] if fenced else [])
            (past,) = ledger.history(task_id)
            assert past.outcome == ("lost" if fenced else "completed")
            ledger.cancel([task_id], action())
            ledger.delete([task_id], action())

    def test_the_same_exchange_from_two_threads_claims_once(self, ledger: Ledger, clock: ManualClock) -> None:
        put(ledger, *(lone(n) for n in range(60)))
        worker = Worker(ledger, clock)
        for n in range(1, 16):
            ask = partial(ledger.exchange, worker.id, n, wants=[Want("work", 2)])
            fewer, more = sorted(({task.id for task in reply.claims} for reply in together(ask, ask)), key=len)
            # The one that comes second is a repeat: it gets what the first one has claimed by then.
            assert fewer <= more
            assert len(more) == 2
        assert len(ledger.mine(worker.id)) == 30

    def test_the_same_action_from_two_threads_is_done_once(self, ledger: Ledger, worker: Worker) -> None:
        for _ in range(10):
            (task_id,) = put(ledger, lone(1))
            worker.fail(worker.take())
            again = partial(ledger.retry, [task_id], action())
            together(again, again)
            assert stored(ledger, task_id).requested_retry_count == 1
            worker.complete(worker.take())
        assert len(ledger.audit()) == 10

    def test_readers_see_whole_steps_only(self, ledger: Ledger, clock: ManualClock) -> None:
        worker = Worker(ledger, clock)
        jobs = [job_of(3) for _ in range(10)]
        put(ledger, *jobs)

        def work() -> list[str]:
            while claims := worker.claim(3):
                for task in claims:
                    worker.complete(task)
            return []

        def read() -> list[str]:
            torn = []
            for _ in range(40):
                for new in jobs:
                    job = job_row(ledger, new.id)
                    if (job.open_count + job.completed_count, job.open_count == 0) != (3, job.merge_id is not None):
                        torn.append(f"{job}")
            return torn

        assert together(work, read) == [[], []]
