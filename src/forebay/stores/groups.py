"""Bounds what one transaction stores."""

from __future__ import annotations

from collections.abc import Iterable

from forebay.model.job import NewJob
from forebay.model.task import NewTask

_MOST_SIZE = 4 * 1024 * 1024

Weight = tuple[int, int]


def weigh(new: NewTask | NewJob) -> Weight:
    """Return how many tasks it brings, and the length of their payloads."""
    if isinstance(new, NewTask):
        return 1, len(new.payload_json)
    return len(new.tasks), sum(len(task.payload_json) for task in new.tasks)


def count_group(weights: Iterable[Weight], most_tasks: int) -> int:
    """Return how many of the first are stored in one transaction, so that others get a turn after it."""
    number = tasks = size = 0
    for task_count, payload_size in weights:
        number += 1
        tasks += task_count
        size += payload_size
        if tasks >= most_tasks or size >= _MOST_SIZE:
            break
    return number
