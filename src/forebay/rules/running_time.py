"""Decides how long a job has run: the time in which anything of it ran, not that in which all of it waited."""

from __future__ import annotations

from collections.abc import Iterable

from forebay.model.task import Status, Task


def ran_s(tasks: Iterable[Task], *, generation: int, now: float) -> float:
    """Of the job's present generation: what a person runs again starts its time anew.

    Of a task that ran more than once, the last time counts.
    """
    spans = sorted(_span(task, now) for task in tasks if task.generation == generation and _has_run(task))
    total = 0.0
    until = 0.0
    for start, end in spans:
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def _has_run(task: Task) -> bool:
    return task.claimed_at is not None and (task.status is Status.RUNNING or task.finished_at is not None)


def _span(task: Task, now: float) -> tuple[float, float]:
    return now if task.claimed_at is None else task.claimed_at, now if task.finished_at is None else task.finished_at
