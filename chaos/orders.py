"""What is submitted: everything about an item follows from its key, so that any process can submit it again."""

from __future__ import annotations

import random

from forebay.model.job import NewJob
from forebay.model.task import NewTask, Role

WORK = "work"
MERGE = "merge"


def key(name: str, *, chunks: int = 0, delay_ms: int = 0) -> str:
    """Without chunks it is a lone task."""
    return f"{name}/{chunks}/{delay_ms}"


def make(key: str) -> NewTask | NewJob:
    chance = random.Random(key)
    max_retries = chance.randrange(4)
    *_, chunk_count, delay_ms = key.split("/")
    delay_s = int(delay_ms) / 1000
    if not int(chunk_count):
        return NewTask(kind=WORK, payload={"key": key}, idempotency_key=key, max_retries=max_retries, delay_s=delay_s)
    chunks = tuple(
        NewTask(
            kind=WORK,
            payload={"key": key, "chunk": index},
            role=Role.CHUNK,
            chunk_index=index,
            max_retries=max_retries,
            delay_s=delay_s,
        )
        for index in range(int(chunk_count))
    )
    return NewJob(
        pipeline="hammered",
        tasks=chunks,
        merge=NewTask(kind=MERGE, payload={"key": key}, role=Role.MERGE, max_retries=max_retries),
        allow_holes=chance.random() < 0.3,
        idempotency_key=key,
    )


def chunk_count(item: NewTask | NewJob) -> int:
    """0 for a lone task: the judge wants to know what it was promised."""
    return len(item.tasks) if isinstance(item, NewJob) else 0
