"""Turns what a split returned into the chunks of its job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from forebay.engine.registry import Kind
from forebay.engine.submission import CHUNK_OPTIONS, Options, Submissions
from forebay.errors import BadInput, TooLarge
from forebay.ids import shown
from forebay.model import payload as json_text
from forebay.model.outcome import Completed
from forebay.model.task import Role, Task

MAX_CHUNKS = 50_000  # they are stored in one step, and others wait for it


def check_number(payloads: Iterable[object]) -> list[object]:
    """The payloads of a job's chunks, if they are not too many."""
    given = list(islice(payloads, MAX_CHUNKS + 1))
    if len(given) > MAX_CHUNKS:
        raise TooLarge(
            f"A job has at most {MAX_CHUNKS} chunks.", remedy="Put more into each chunk, or start more jobs."
        )
    return given


def chunks_of(value: object, task: Task, kind: Kind, submissions: Submissions) -> Completed:
    """One chunk for each payload; none of them is lost or doubled, since their ids follow from job and index."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
        raise BadInput(f"A split returned {shown(value)}.", remedy="Return a list with one payload for each chunk.")
    if kind.chunk_kind is None or task.job_id is None:
        raise BadInput(f"Task {task.id} is not a split of a job.", remedy="Start it with app.start(pipeline, …).")
    payloads = check_number(value)
    options = Options(priority=task.priority, tenant=task.tenant, tags=task.tags)
    if task.deadline_at is not None:
        options["deadline_at"] = task.deadline_at
    # What the job was started with holds for its chunks as well; what its kind says is the split's own.
    given: Any = {name: value for name in CHUNK_OPTIONS if (value := getattr(task, name)) != getattr(kind, name)}
    options |= given
    chunks = tuple(
        submissions.task(kind.chunk_kind, payload, options, role=Role.CHUNK, chunk_index=index)
        for index, payload in enumerate(payloads)
    )
    return Completed(result_json=json_text.encode({"chunks": len(chunks)}), follow_ups=chunks)
