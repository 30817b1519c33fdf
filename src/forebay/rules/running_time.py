"""Decides how long a job has run: the time in which anything of it ran, not that in which all of it waited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from forebay.model.task import Task

Span = tuple[float, float]


def ran_s(spans: Iterable[Span]) -> float:
    """In all: what ran at the same time counts once."""
    total = 0.0
    until = 0.0
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def ended(tasks: Iterable[Task], told_s: Mapping[str, float], *, generation: int) -> Iterator[Span]:
    """When the tasks ran that have ended, of the job's present generation: a person who retries starts its time anew.

    Of a task that ran more than once, the last time counts. `told_s`: how long those ran that waited as well, by their
    ids; they are taken to have waited first. Whether one that has not ended runs or waits, it alone knows.
    """
    for task in tasks:
        if task.generation == generation and task.claimed_at is not None and task.finished_at is not None:
            waited_until = task.finished_at - told_s.get(task.id, task.finished_at)
            yield max(task.claimed_at, waited_until), task.finished_at
