"""The ground that all promises are tested on: a fresh ledger, a clock moved by hand, two workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forebay.clock import Clock, ManualClock
from forebay.model.exchange import Submitted
from forebay.model.job import Job, NewJob
from forebay.model.task import NewTask, Status, Task
from forebay.stores.base import Ledger
from forebay.testing.invariants import all_tasks, problems
from forebay.testing.workers import Worker


class LedgerCase:
    """What a store's own test class fills in: `make_ledger`, and `reopen` where data outlives the object.

    `many` is how many units the larger tests submit; less for a store that is not made for many.
    `wakes` says that listeners are woken: not so by a store that has no means for it.
    `tags_at_submit` says that a task which is due gets its tag at once: not so in a store whose next exchange tags it.
    """

    many = 1200
    wakes = True
    tags_at_submit = True

    def make_ledger(self, clock: Clock) -> Ledger:
        raise NotImplementedError

    def reopen(self, ledger: Ledger, clock: Clock) -> Ledger:  # noqa: ARG002 - for stores that need it
        """Close it and open its data again; a ledger whose data ends with the object goes on as it is."""
        return ledger

    def reopened(self, ledger: Ledger, clock: Clock) -> Ledger:
        self._opened = self.reopen(ledger, clock)
        return self._opened

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def ledger(self, clock: ManualClock) -> Iterator[Ledger]:
        self._opened = self.make_ledger(clock)
        try:
            yield self._opened
            assert problems(self._opened) == []
        finally:
            self._opened.close()

    @pytest.fixture
    def worker(self, ledger: Ledger, clock: ManualClock) -> Worker:
        return Worker(ledger, clock, "worker-1")

    @pytest.fixture
    def other(self, ledger: Ledger, clock: ManualClock) -> Worker:
        return Worker(ledger, clock, "worker-2", lease_s=100_000.0)


def stored(ledger: Ledger, task_id: str) -> Task:
    task = ledger.get(task_id)
    assert task is not None, f"task {task_id} is not in the ledger"
    return task


def job_row(ledger: Ledger, job_id: str) -> Job:
    job = ledger.get_job(job_id)
    assert job is not None, f"job {job_id} is not in the ledger"
    return job


def put(ledger: Ledger, *new: NewTask | NewJob) -> list[str]:
    """Submit what must be new, and give back the ids."""
    answers = ledger.submit(list(new))
    assert answers == [Submitted(each.id, "created") for each in new]
    return [each.id for each in new]


def statuses(ledger: Ledger, job_id: str) -> list[Status]:
    """Of a job's tasks, in the order they were made."""
    return [task.status for task in all_tasks(ledger, job_id)]


def event_names(ledger: Ledger, job_id: str) -> list[str]:
    return [event.name for event in ledger.events(job_id)]


def everything(ledger: Ledger) -> dict[str, object]:
    """All that a write could change, for "nothing changed"."""
    tasks = all_tasks(ledger)
    return {
        "tasks": [ledger.get(task.id) for task in tasks],
        "history": [ledger.history(task.id) for task in tasks],
        "jobs": [ledger.get_job(job_id) for job_id in _jobs(tasks)],
        "events": [ledger.events(job_id) for job_id in _jobs(tasks)],
        "used": ledger.used(),
        "audit": ledger.audit(),
        "pauses": [
            (lane.name, lane.paused_at, lane.paused_until, lane.note)
            for lane in ledger.lanes()
            if lane.paused_at is not None
        ],
    }


def _jobs(tasks: list[Task]) -> list[str]:
    return sorted({task.job_id for task in tasks if task.job_id is not None})
