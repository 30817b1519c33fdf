from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from forebay.errors import BadInput, StoreUnreachable
from forebay.model.exchange import Submitted
from forebay.model.job import NewJob
from forebay.model.task import NewTask, Role
from forebay.stores.together import Together

SOON_S = 10.0


def job() -> NewJob:
    return NewJob(pipeline="ocr", tasks=(NewTask(kind="ocr.split", role=Role.SPLIT),))


class Store:
    """Stands still in its first group until `gate` opens; fails at the jobs that are in `refused`."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.refused: dict[str, BaseException] = {}
        self.gate = threading.Event()
        self.inside = threading.Event()
        self.together = Together(self._submit)

    def _submit(self, group: Sequence[NewJob]) -> list[Submitted]:
        self.groups.append([each.id for each in group])
        if not self.inside.is_set():
            self.inside.set()
            assert self.gate.wait(SOON_S)
        for each in group:
            if each.id in self.refused:
                raise self.refused[each.id]
        return [Submitted(each.id, "created") for each in group]


def submit_at_once(store: Store, jobs: Sequence[NewJob]) -> list[Future[Submitted]]:
    """The first is being stored while the others come."""
    pool = ThreadPoolExecutor(len(jobs))
    futures = [pool.submit(store.together.submit, jobs[0])]
    assert store.inside.wait(SOON_S)
    for number, each in enumerate(jobs[1:], start=1):
        futures.append(pool.submit(store.together.submit, each))
        while len(store.together._line._waiting) < number:
            time.sleep(0.001)
    store.gate.set()
    pool.shutdown(wait=True)
    return futures


def test_jobs_that_come_while_one_is_stored_are_stored_together_with_each_its_answer() -> None:
    store, jobs = Store(), [job() for _ in range(5)]
    answers = [each.result() for each in submit_at_once(store, jobs)]
    assert answers == [Submitted(each.id, "created") for each in jobs]
    assert store.groups == [[jobs[0].id], [each.id for each in jobs[1:]]]


def test_a_job_that_cannot_be_stored_fails_alone() -> None:
    store, jobs = Store(), [job() for _ in range(4)]
    store.refused[jobs[2].id] = BadInput("no", remedy="none")
    first, second, bad, fourth = submit_at_once(store, jobs)
    assert [each.result().id for each in (first, second, fourth)] == [jobs[0].id, jobs[1].id, jobs[3].id]
    with pytest.raises(BadInput):
        bad.result()


def test_a_store_that_is_down_is_told_to_each_and_asked_once() -> None:
    store, jobs = Store(), [job() for _ in range(4)]
    store.refused[jobs[2].id] = StoreUnreachable("down", remedy="none")
    first, *others = submit_at_once(store, jobs)
    assert first.result().id == jobs[0].id
    for each in others:
        with pytest.raises(StoreUnreachable):
            each.result()
    assert len(store.groups) == 2


def test_a_thread_that_is_interrupted_while_it_stores_leaves_nobody_waiting() -> None:
    store, jobs = Store(), [job() for _ in range(4)]
    store.refused[jobs[1].id] = KeyboardInterrupt()
    first, interrupted, *others = submit_at_once(store, jobs)
    assert isinstance(interrupted.exception(SOON_S), KeyboardInterrupt)
    assert [each.result(SOON_S).id for each in (first, *others)] == [jobs[0].id, jobs[2].id, jobs[3].id]
    assert store.together.submit(late := job()).id == late.id


def test_a_child_that_was_forked_while_a_job_was_stored_does_not_wait_for_the_parents_thread() -> None:
    store = Store()
    with ThreadPoolExecutor(1) as pool:
        stored = pool.submit(store.together.submit, job())
        assert store.inside.wait(SOON_S)
        child = os.fork()
        if child == 0:
            signal.alarm(round(SOON_S))
            os._exit(0 if store.together.submit(job()).outcome == "created" else 2)
        _, status = os.waitpid(child, 0)
        store.gate.set()
        assert stored.result().outcome == "created"
    assert os.waitstatus_to_exitcode(status) == 0
