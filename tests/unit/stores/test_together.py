from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import pytest

from forebay.errors import BadInput, StoreUnreachable
from forebay.model.exchange import Submitted
from forebay.model.job import NewJob
from forebay.model.task import NewTask, Role
from forebay.stores.together import Together, _Waiting

SOON_S = 10.0


MOST_TASKS = 100


def job() -> NewJob:
    return NewJob(pipeline="ocr", tasks=(NewTask(kind="ocr.split", role=Role.SPLIT),))


def job_of(chunk_count: int, payload: str = "") -> NewJob:
    chunks = (
        NewTask(kind="ocr", role=Role.CHUNK, chunk_index=index, payload=payload or None) for index in range(chunk_count)
    )
    return NewJob(pipeline="ocr", tasks=tuple(chunks))


class TimeLimit(BaseException):
    """What a signal handler raises in the main thread."""


class Store:
    """Stands still in its first group until `gate` opens; fails at the jobs that are in `refused`."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.refused: dict[str, BaseException] = {}
        self.gate = threading.Event()
        self.inside = threading.Event()
        self.together = Together(self._submit, MOST_TASKS)

    def _submit(self, group: Sequence[NewJob]) -> list[Submitted]:
        self.groups.append([each.id for each in group])
        if not self.inside.is_set():
            self.inside.set()
            assert self.gate.wait(SOON_S)
        for each in group:
            if each.id in self.refused:
                raise self.refused[each.id]
        return [Submitted(each.id, "created") for each in group]


def wait_for_line(store: Store, length: int) -> None:
    until = time.monotonic() + SOON_S
    while len(store.together._line._waiting) < length:
        assert time.monotonic() < until
        time.sleep(0.001)


def submit_at_once(store: Store, jobs: Sequence[NewJob]) -> list[Future[Submitted]]:
    """The first is being stored while the others come."""
    pool = ThreadPoolExecutor(len(jobs))
    futures = [pool.submit(store.together.submit, jobs[0])]
    assert store.inside.wait(SOON_S)
    for number, each in enumerate(jobs[1:], start=1):
        futures.append(pool.submit(store.together.submit, each))
        wait_for_line(store, number)
    store.gate.set()
    pool.shutdown(wait=True)
    return futures


def test_jobs_that_come_while_one_is_stored_are_stored_together_with_each_its_answer() -> None:
    store, jobs = Store(), [job() for _ in range(5)]
    answers = [each.result() for each in submit_at_once(store, jobs)]
    assert answers == [Submitted(each.id, "created") for each in jobs]
    assert [set(group) for group in store.groups] == [{jobs[0].id}, {each.id for each in jobs[1:]}]


def test_a_group_is_stored_in_the_order_of_its_ids_whatever_the_order_of_its_callers() -> None:
    store = Store()
    jobs = [job(), *sorted((job() for _ in range(6)), key=lambda each: each.id, reverse=True)]
    answers = [each.result() for each in submit_at_once(store, jobs)]
    assert answers == [Submitted(each.id, "created") for each in jobs]
    assert store.groups[1] == [each.id for each in reversed(jobs[1:])]


@pytest.mark.parametrize(
    ("jobs", "sizes"),
    [
        pytest.param([job_of(MOST_TASKS // 2) for _ in range(4)], [2, 2], id="tasks"),
        pytest.param([job_of(3, "x" * 500_000) for _ in range(4)], [3, 1], id="payloads"),
        pytest.param([job_of(MOST_TASKS), job_of(1), job_of(1)], [1, 2], id="a job that fills it"),
    ],
)
def test_jobs_that_are_stored_together_keep_to_the_bounds_of_a_transaction(
    jobs: list[NewJob], sizes: list[int]
) -> None:
    store = Store()
    answers = [each.result() for each in submit_at_once(store, [job(), *jobs])]
    assert [each.id for each in answers[1:]] == [each.id for each in jobs]
    assert [len(group) for group in store.groups[1:]] == sizes


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


def is_still_used(store: Store) -> bool:
    """Return whether jobs are still stored by other threads, alone and together."""
    with ThreadPoolExecutor(3) as pool:
        pending = [pool.submit(store.together.submit, job()) for _ in range(3)]
        answered = [each for each in pending if each in wait(pending, SOON_S).done]
        for each in [*store.together._line._waiting]:  # a pool waits for its threads, also where the test fails
            each.is_alone = True
            each.turn.release()
    return len(answered) == 3


@contextmanager
def interrupted_by(signal_number: int) -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise TimeLimit

    before = signal.signal(signal_number, interrupt)
    try:
        yield
    finally:
        signal.signal(signal_number, before)


@pytest.mark.parametrize("is_first_in_line", [True, False])
def test_a_thread_that_is_interrupted_while_it_waits_holds_up_nobody(*, is_first_in_line: bool) -> None:
    store = Store()
    with ThreadPoolExecutor(3) as pool, interrupted_by(signal.SIGUSR1):
        stored = [pool.submit(store.together.submit, job())]
        assert store.inside.wait(SOON_S)
        if not is_first_in_line:
            stored.append(pool.submit(store.together.submit, job()))
            wait_for_line(store, 1)
        own_place = len(stored)

        def interrupt_when_it_waits() -> None:
            wait_for_line(store, own_place)
            signal.pthread_kill(main_thread_id, signal.SIGUSR1)

        main_thread_id = threading.get_ident()
        pool.submit(interrupt_when_it_waits)
        with pytest.raises(TimeLimit):
            store.together.submit(job())
        store.gate.set()
        assert all(each.result(SOON_S).outcome == "created" for each in stored)
    assert is_still_used(store)


@pytest.mark.parametrize("is_done", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("step", ["enter", "take", "leave"])
@pytest.mark.parametrize("role", ["stores", "waits"])
def test_a_thread_that_is_interrupted_between_two_steps_holds_up_nobody(role: str, step: str, *, is_done: bool) -> None:
    store = Store()
    line = store.together._line
    whole = getattr(line, step)
    own = job()
    raised = threading.Event()

    def interrupted(waiting: _Waiting, *arguments: object) -> object:
        if waiting.new is not own or raised.is_set():
            return whole(waiting, *arguments)
        if is_done:
            whole(waiting, *arguments)
        raised.set()
        raise TimeLimit

    setattr(line, step, interrupted)
    with ThreadPoolExecutor(3) as pool:
        others = []
        if role == "waits":
            others.append(pool.submit(store.together.submit, job()))
            assert store.inside.wait(SOON_S)
        submitted = pool.submit(store.together.submit, own)
        if role == "waits" and step != "enter":
            wait_for_line(store, 1)
            others.append(pool.submit(store.together.submit, job()))
            wait_for_line(store, 2)
        store.gate.set()
        assert isinstance(submitted.exception(SOON_S), TimeLimit)
        assert all(each.result(SOON_S).outcome == "created" for each in others)
    assert is_still_used(store)


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
