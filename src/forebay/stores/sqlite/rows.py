"""Turns rows of the SQLite ledger into model objects, and back into the JSON that its statements take."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from forebay.model.exchange import Session
from forebay.model.job import Event, Job
from forebay.model.task import Attempt, Role, Status, Task, WaitReason

Row = tuple[Any, ...]

TASK = (
    "id, kind, lane, tenant, status, role, job_id, chunk_index, generation, priority, flow, tag, tags,"
    " idempotency_key, payload_hash, payload_blob, timeout_s, deadline_at, max_retries, max_reschedules,"
    " created_at, available_at, wait_reason, retry_count, reschedule_count, lost_count, claim_count,"
    " attempt_count, session_id, exchange_n, claimed_at, attempt_deadline_at, finished_at,"
    " cancel_requested_at, error_class, error_text, result_blob"
)


def names(columns: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in columns.split(","))


TASK_NAMES = names(TASK)
JOB_NAMES = tuple(Job.__slots__)
_STATUS = {str(status): status for status in Status}
_ROLE = {str(role): role for role in Role}
_WAIT: dict[str | None, WaitReason | None] = {None: None} | {str(reason): reason for reason in WaitReason}


class Held(NamedTuple):
    """What is needed of a running task to end its attempt."""

    seq: int
    id: str
    claim_count: int
    attempt_count: int
    retry_count: int
    reschedule_count: int
    lost_count: int
    available_at: float
    cancel_requested_at: float | None
    job_id: str | None
    role: str
    chunk_index: int | None
    generation: int
    tenant: str
    session_id: str
    claimed_at: float


def task(row: Sequence[Any], payload: str | None = None, result: str | None = None) -> Task:
    fields = dict(zip(TASK_NAMES, row, strict=False))
    fields["status"] = _STATUS[fields["status"]]
    fields["role"] = _ROLE[fields["role"]]
    fields["wait_reason"] = _WAIT[fields["wait_reason"]]
    fields["tags"] = _tuple(fields["tags"])
    return Task(**fields, payload_json=payload, result_json=result)


def task_values(value: Task) -> list[Any]:
    values = [getattr(value, name) for name in TASK_NAMES]
    values[TASK_NAMES.index("tags")] = _text(value.tags)
    return values


def job(row: Sequence[Any]) -> Job:
    fields = dict(zip(JOB_NAMES, row, strict=True))
    fields["status"] = _STATUS[fields["status"]]
    fields["tags"] = _tuple(fields["tags"])
    fields["allow_holes"] = bool(fields["allow_holes"])
    return Job(**fields)


def job_values(value: Job) -> list[Any]:
    values = [getattr(value, name) for name in JOB_NAMES]
    values[JOB_NAMES.index("tags")] = _text(value.tags)
    return values


def session(row: Row) -> Session:
    id_, worker, lease_s, kinds, opened_at, expires_at, ended_at, exchange_n = row
    return Session(
        id=id_,
        worker=worker,
        lease_s=lease_s,
        kinds=_tuple(kinds),
        opened_at=opened_at,
        expires_at=expires_at,
        ended_at=ended_at,
        exchange_n=exchange_n,
    )


def attempt(task_id: str, row: Row) -> Attempt:
    fields = dict(zip(Attempt.__slots__[1:], row, strict=True))
    fields["status"] = _STATUS[fields["status"]]
    fields["settled"] = bool(fields["settled"])
    return Attempt(task_id=task_id, **fields)


def event(row: Row) -> Event:
    number, at, name, fields = row
    return Event(name=name, fields=json.loads(fields), number=number, at=at)


def _text(values: tuple[str, ...]) -> str | None:
    return json.dumps(values) if values else None


def _tuple(text: str | None) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text else ()
