"""A job as it is submitted, as a ledger keeps it, and what happens in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from forebay import ids
from forebay.errors import BadInput
from forebay.model import payload as json_text
from forebay.model.callback import Callback
from forebay.model.names import check_count, check_label, check_name
from forebay.model.payload import Json
from forebay.model.task import (
    DEFAULT_ENVIRONMENT,
    DEFAULT_TENANT,
    NewTask,
    Role,
    Status,
    check_blob,
    check_tags,
)


def member_id(job_id: str, role: Role, part: int | str) -> str:
    """The id of a job's task: `part` is the chunk's index, the merge's generation or a follow-up's key."""
    return ids.derived_id("member", job_id, role, str(part))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """One run of a pipeline over one document: a split task or its chunks, and what merges them.

    `terms` is what else was said under a key: with others it is another submission.
    """

    pipeline: str
    tasks: tuple[NewTask, ...]
    merge: NewTask | None = None
    allow_holes: bool = False
    tenant: str = DEFAULT_TENANT
    environment: str = DEFAULT_ENVIRONMENT
    document: str | None = None
    label: str | None = None
    idempotency_key: str | None = None
    tags: tuple[str, ...] = ()
    callback: Callback | None = None
    terms: tuple[Json, ...] = ()
    id: str = ""
    payload_hash: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._check()
        put = object.__setattr__
        if self.idempotency_key is not None:
            put(self, "payload_hash", self._fingerprint())
        if self.id:
            ids.check_id(self.id)
        elif self.idempotency_key is None:
            put(self, "id", ids.random_id())
        else:
            parts = (self.environment, self.tenant, self.pipeline, self.idempotency_key)
            put(self, "id", ids.derived_id("job", *parts))
        put(self, "tasks", tuple(member(task, self.id, tenant=self.tenant) for task in self.tasks))

    def _check(self) -> None:
        check_name("pipeline", self.pipeline)
        check_name("tenant", self.tenant)
        check_name("environment", self.environment)
        check_tags(self.tags)
        if self.document is not None:
            check_blob(self.document)
        if self.label is not None:
            check_label("label", self.label)
        if self.idempotency_key is not None:
            check_label("idempotency key", self.idempotency_key)
        if not isinstance(self.tasks, tuple) or not all(isinstance(task, NewTask) for task in self.tasks):
            raise BadInput(f"tasks is {ids.shown(self.tasks)}.", remedy="Give a tuple of NewTask.")
        if not (self.merge is None or isinstance(self.merge, NewTask)):
            raise BadInput(f"merge is {ids.shown(self.merge)}.", remedy="Give a NewTask or None.")
        if not (self.callback is None or isinstance(self.callback, Callback)):
            raise BadInput(f"callback is {ids.shown(self.callback)}.", remedy="Give a Callback or None.")
        roles = {task.role for task in self.tasks}
        if roles == {Role.SPLIT} and len(self.tasks) == 1:
            return
        if roles != {Role.CHUNK}:
            raise BadInput("A job starts with one split task or with chunks.", remedy="Give its tasks that role.")
        if len({task.chunk_index for task in self.tasks}) != len(self.tasks):
            raise BadInput("Two chunks of a job have the same index.", remedy="Number its chunks from 0.")

    def _fingerprint(self) -> str:
        members = (*self.tasks, *([self.merge] if self.merge else []))
        # A split and its merge mostly have the same payload.
        hashes = {text: json_text.fingerprint(text) for text in {task.payload_json for task in members}}
        parts = [[task.kind, task.chunk_index, task.payload_blob, hashes[task.payload_json]] for task in members]
        told = [] if self.callback is None else self.callback.terms
        holes = ["with holes"] if self.allow_holes and self.document is not None else []
        return json_text.fingerprint(json.dumps([self.document, parts, *told, *holes, *self.terms]))


def member(task: NewTask, job_id: str, *, tenant: str, generation: int = 1) -> NewTask:
    """The same task as part of a job, with the id that follows from its place there."""
    if task.role is Role.CHUNK:
        part: int | str = task.chunk_index if task.chunk_index is not None else 0
    elif task.role is Role.FOLLOW:
        if task.idempotency_key is None:
            raise BadInput("A follow-up task needs an idempotency key.", remedy="Name it within its job.")
        part = task.idempotency_key
    elif task.role is Role.LONE:
        raise BadInput("A lone task cannot be part of a job.", remedy="Give it the role chunk or follow.")
    else:
        part = generation
    return task.placed(member_id(job_id, task.role, part), tenant)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job in a ledger; its counters are of chunks."""

    id: str
    pipeline: str
    tenant: str
    status: Status
    generation: int
    created_at: float
    document: str | None
    label: str | None
    idempotency_key: str | None
    payload_hash: str | None
    tags: tuple[str, ...]
    allow_holes: bool
    merge_json: str | None
    chunk_count: int = 0
    open_count: int = 0
    running_count: int = 0
    completed_count: int = 0
    failed_count: int = 0
    canceled_count: int = 0
    event_count: int = 0
    started_at: float | None = None
    finished_at: float | None = None
    cancel_requested_at: float | None = None
    merge_id: str | None = None
    error_class: str | None = None
    error_text: str | None = None
    callback_json: str | None = None

    @property
    def pending_count(self) -> int:
        return self.open_count - self.running_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a job; a ledger numbers them from 1 within it."""

    name: str
    fields: Mapping[str, Json] = field(default_factory=dict)
    number: int = 0
    at: float = 0.0

    def __post_init__(self) -> None:
        check_name("event", self.name)
        check_count("event number", self.number)
        if not isinstance(self.fields, Mapping):
            raise BadInput(f"The fields of an event are {ids.shown(self.fields)}.", remedy="Give a dict.")
        json_text.encode(dict(self.fields), what="event", max_bytes=64 * 1024)
