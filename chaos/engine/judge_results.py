"""Judges what was recorded: made under the token that completed it, whole, and merged from just those chunks."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from chaos.engine.evidence import Evidence
from chaos.evidence import Task


def blobs(evidence: Evidence) -> Iterator[str]:
    """R1, R2: every blob has the sha256 it is named by, and every one that is recorded is there."""
    for name, path in evidence.blobs.items():
        if hashlib.sha256(path.read_bytes()).hexdigest() != name:
            yield f"R1 blob {name}: holds other bytes"
    for task in evidence.rows.tasks.values():
        if task.result_blob is not None and task.result_blob not in evidence.blobs:
            yield f"R2 task {task.id}: its result {task.result_blob} is not there"


def results(evidence: Evidence) -> Iterator[str]:
    """T6: the result is that of the attempt that completed the task."""
    members = _members(evidence)
    for task in evidence.rows.tasks.values():
        if task.result_blob is not None and task.result_blob not in evidence.blobs:
            continue
        made = evidence.result(task)
        if (task.status == "completed") != (made is not None):
            yield f"T6 task {task.id}: is {task.status}, its result is {str(made)[:60]}"
        elif made is not None and evidence.rows.history[task.id]:
            yield from _own(evidence, task, made, members[task.job_id or ""])


def _own(evidence: Evidence, task: Task, made: dict[str, Any], members: list[Task]) -> Iterator[str]:
    token = evidence.rows.history[task.id][-1].token
    if task.role == "split":
        for chunk in members:
            if chunk.role == "chunk" and evidence.payloads[chunk.id]["split_token"] != token:
                yield f"T6 task {task.id}: split under token {token}, chunk {chunk.chunk_index} was made by another"
        return
    if (made["task"], made["token"]) != (task.id, token):
        yield f"T6 task {task.id}: completed under token {token}, its result was made under {made['token']}"
    if task.role == "merge":
        yield from _merged(evidence, task, made, members)


def _merged(evidence: Evidence, task: Task, made: dict[str, Any], members: list[Task]) -> Iterator[str]:
    """R4: all chunks in their order, with the results that are recorded for them."""
    chunks = sorted((each for each in members if each.role == "chunk"), key=lambda each: each.chunk_index or 0)
    wanted = []
    for chunk in chunks:
        result = evidence.result(chunk) if chunk.status == "completed" else None
        wanted.append([chunk.chunk_index, result and [result["task"], result["token"], result["number"]]])
    if made["parts"] != wanted:
        yield f"R4 merge {task.id}: merged {made['parts']}, its chunks are {wanted}"


def _members(evidence: Evidence) -> dict[str, list[Task]]:
    found: dict[str, list[Task]] = defaultdict(list)
    for task in evidence.rows.tasks.values():
        if task.job_id is not None:
            found[task.job_id].append(task)
    return found
