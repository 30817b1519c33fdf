"""A task as it is submitted, and as a ledger keeps it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

from forebay import ids
from forebay.errors import BadInput, BadName
from forebay.model import payload as json_text
from forebay.model.names import (
    check_count,
    check_duration,
    check_instant,
    check_label,
    check_name,
    lane_of,
)
from forebay.model.payload import Json

DEFAULT_TENANT = "default"
DEFAULT_ENVIRONMENT = "dev"
MAX_PRIORITY = 100
MAX_TAGS = 32
_SHA256 = re.compile("[0-9a-f]{64}")


class Status(StrEnum):
    """Where a task or a job stands."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELED})


class WaitReason(StrEnum):
    """Why a pending task does not start: the first five are stored with it, the rest derived when asked."""

    RETRY = "retry"
    RESCHEDULE = "reschedule"
    SCHEDULED = "scheduled"
    DEPENDENCY = "dependency"
    BUDGET = "budget"
    LIMIT = "limit"
    COOLDOWN = "cooldown"
    BREAKER = "breaker"
    QUOTA = "quota"
    PAUSED = "paused"
    NO_WORKER = "no_worker"


class Role(StrEnum):
    """What a task is to its job; a lone task has none."""

    LONE = "lone"
    SPLIT = "split"
    CHUNK = "chunk"
    MERGE = "merge"
    FOLLOW = "follow"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task to be submitted: checked when it is made, so that a store never sees a bad one.

    `drawn`: its id was made at random, so that nobody else can have it.
    """

    kind: str
    payload: object = None
    payload_blob: str | None = None
    tenant: str = DEFAULT_TENANT
    environment: str = DEFAULT_ENVIRONMENT
    limit: str | None = None
    priority: int = 0
    delay_s: float = 0.0
    available_at: float | None = None
    deadline_at: float | None = None
    timeout_s: float = 60.0
    max_retries: int = 3
    max_reschedules: int | None = None
    idempotency_key: str | None = None
    fairness_key: str | None = None
    tags: tuple[str, ...] = ()
    role: Role = Role.LONE
    chunk_index: int | None = None
    page_start: int | None = None
    page_end: int | None = None
    id: str = ""
    payload_json: str = field(init=False)
    payload_hash: str | None = field(init=False, default=None)
    drawn: bool = field(init=False, default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "role", check_role(self.role))
        self._check_names()
        self._check_numbers()
        put(self, "payload_json", json_text.encode(self.payload))
        if self.idempotency_key is not None:
            put(self, "payload_hash", json_text.fingerprint(self.payload_json, self.payload_blob or ""))
        self._identify()

    def like(self, payload: object, *, id: str = "", idempotency_key: str | None = None) -> NewTask:  # noqa: A002 - its name everywhere
        """A lone task that differs by its payload and its key alone; the rest has been checked already.

        `id` is one that was drawn for it, for those without a key.
        """
        if self.role is not Role.LONE or self.payload_blob is not None:
            raise BadInput(f"A {self.role} task has no likes.", remedy="Make each by itself.")
        new = object.__new__(NewTask)
        for put, value in zip(_PUTS, _fields_of(self), strict=True):
            put(new, value)
        text = json_text.encode(payload)
        _put_payload(new, payload)
        _put_payload_json(new, text)
        _put_key(new, idempotency_key)
        _put_hash(new, None)
        _put_id(new, id)
        _put_drawn(new, bool(id))
        if idempotency_key is not None:
            check_label("idempotency key", idempotency_key)
            _put_hash(new, json_text.fingerprint(text, ""))
        if not id:
            new._identify()
        return new

    def placed(self, id: str, tenant: str) -> NewTask:  # noqa: A002 - its name everywhere
        """The same task in its place in a job, which has checked both; the rest has been checked already."""
        new = object.__new__(NewTask)
        for put, value in zip(_PUTS, _fields_of(self), strict=True):
            put(new, value)
        _put_id(new, id)
        _put_tenant(new, tenant)
        object.__setattr__(new, "drawn", False)
        return new

    def _identify(self) -> None:
        derived = None
        if self.idempotency_key is not None:
            parts = (self.environment, self.tenant, self.kind, self.idempotency_key)
            derived = ids.derived_id("task", *parts)
        if not self.id:
            object.__setattr__(self, "id", derived or ids.random_id())
            object.__setattr__(self, "drawn", derived is None)
        elif derived not in {None, ids.check_id(self.id)} and self.role is Role.LONE:
            raise BadInput("A task with an idempotency key gets its id from it.", remedy="Give the key or the id.")

    @property
    def lane(self) -> str:
        return lane_of(self.kind, self.limit)

    def _check_names(self) -> None:
        check_name("kind", self.kind)
        check_name("tenant", self.tenant)
        check_name("environment", self.environment)
        if self.limit is not None:
            check_name("limit", self.limit)
        if self.idempotency_key is not None:
            check_label("idempotency key", self.idempotency_key)
        if self.fairness_key is not None:
            check_label("fairness key", self.fairness_key)
        check_tags(self.tags)
        if self.payload_blob is not None:
            check_blob(self.payload_blob)

    def _check_numbers(self) -> None:
        check_count("priority", self.priority, least=-MAX_PRIORITY, most=MAX_PRIORITY)
        check_duration("delay_s", self.delay_s)
        if check_duration("timeout_s", self.timeout_s) <= 0:
            raise BadInput("timeout_s is 0: no attempt could end in that time.", remedy="Give a second or more.")
        check_count("max_retries", self.max_retries)
        if self.available_at is not None:
            check_instant("available_at", self.available_at)
        if self.deadline_at is not None:
            check_instant("deadline_at", self.deadline_at)
        if self.max_reschedules is not None:
            check_count("max_reschedules", self.max_reschedules)
        if (self.role is Role.CHUNK) != (self.chunk_index is not None):
            raise BadInput("A chunk, and only a chunk, has an index.", remedy="Give chunk_index with role='chunk'.")
        if self.chunk_index is not None:
            check_count("chunk_index", self.chunk_index)
        self._check_pages()

    def _check_pages(self) -> None:
        if self.page_start is None and self.page_end is None:
            return
        if self.role is not Role.CHUNK or self.page_start is None or self.page_end is None:
            raise BadInput(
                "A chunk, and only a chunk, has a range of pages.",
                remedy="Give both ends with its index.",
            )
        check_count("page_start", self.page_start, least=1)
        check_count("page_end", self.page_end, least=self.page_start)


_FIELDS = tuple(field.name for field in fields(NewTask))
_fields_of = attrgetter(*_FIELDS)
# By the slots themselves: a frozen class has no other way in, and object.__setattr__ looks each of them up.
_PUTS: tuple[Callable[[NewTask, object], None], ...] = tuple(getattr(NewTask, name).__set__ for name in _FIELDS)
_put_payload, _put_payload_json, _put_key, _put_hash, _put_id, _put_drawn, _put_tenant = (
    _PUTS[_FIELDS.index(name)]
    for name in ("payload", "payload_json", "idempotency_key", "payload_hash", "id", "drawn", "tenant")
)


def check_role(value: object) -> Role:
    try:
        return Role(value)  # type: ignore[arg-type]  # whatever it is, the enum says whether it is one of it
    except ValueError:
        raise BadName(f"{ids.shown(value)} is not a role.", remedy=f"Use one of: {', '.join(Role)}.") from None


def check_tags(tags: object) -> None:
    if not isinstance(tags, tuple) or len(tags) > MAX_TAGS:
        raise BadInput(f"tags is {ids.shown(tags)}.", remedy=f"Give a tuple of at most {MAX_TAGS} short texts.")
    for tag in tags:
        check_label("tag", tag)


def pages_text(first: int, last: int | None) -> str:
    return f"page {first}" if last in {None, first} else f"pages {first}-{last}"


def check_blob(sha256: object) -> str:
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise BadInput(f"{ids.shown(sha256)} is not a blob reference.", remedy="Give the sha256 that put() returned.")
    return sha256


class Task(NamedTuple):
    """A task in a ledger. While it runs, `claim_count` is its lease token.

    `progress` and `progress_note` are what the running attempt reported last; only `get` and `get_many` read them.

    A tuple, because a ledger makes one of every row it reads: five times as fast as a frozen dataclass.
    """

    id: str
    kind: str
    lane: str
    tenant: str
    status: Status
    role: Role
    job_id: str | None
    chunk_index: int | None
    generation: int
    priority: int
    flow: str | None
    tag: int | None
    tags: tuple[str, ...]
    idempotency_key: str | None
    payload_hash: str | None
    payload_blob: str | None
    timeout_s: float
    deadline_at: float | None
    max_retries: int
    max_reschedules: int | None
    created_at: float
    available_at: float
    wait_reason: WaitReason | None = None
    retry_count: int = 0
    reschedule_count: int = 0
    lost_count: int = 0
    claim_count: int = 0
    attempt_count: int = 0
    session_id: str | None = None
    exchange_n: int | None = None
    claimed_at: float | None = None
    attempt_deadline_at: float | None = None
    finished_at: float | None = None
    cancel_requested_at: float | None = None
    error_class: str | None = None
    error_text: str | None = None
    result_blob: str | None = None
    requested_retry_count: int = 0
    page_start: int | None = None
    page_end: int | None = None
    payload_json: str | None = None
    result_json: str | None = None
    progress: float | None = None
    progress_note: str | None = None

    @property
    def title(self) -> str:
        """What a person knows the task by: the chunk with its pages, or the role with the id."""
        if self.chunk_index is None:
            return f"{'task' if self.role is Role.LONE else self.role} {self.id}"
        pages = "" if self.page_start is None else f", {pages_text(self.page_start, self.page_end)}"
        return f"chunk {self.chunk_index}{pages}"

    @property
    def payload(self) -> Json:
        return None if self.payload_json is None else json_text.decode(self.payload_json)

    @property
    def result(self) -> Json:
        return None if self.result_json is None else json_text.decode(self.result_json)

    @property
    def unit_id(self) -> str:
        """The id of what changes atomically with it: its job, or itself."""
        return self.job_id or self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution of a task that has ended: a row of its history. `settled`: by its own session, not rescued."""

    task_id: str
    token: int
    attempt: int
    session_id: str
    worker: str
    claimed_at: float
    ended_at: float
    outcome: str
    status: Status
    retry_count: int
    reschedule_count: int
    settled: bool
    available_at: float | None = None
    error_class: str | None = None
    error_text: str | None = None
    traceback: str | None = None
