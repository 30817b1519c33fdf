"""Turns rows of a ledger in SQL into model objects, and back into the values that its statements take."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from forebay.model.callback import Endpoint
from forebay.model.exchange import Audit, Progress, Session
from forebay.model.job import Event, Job
from forebay.model.key import ApiKey
from forebay.model.lane import Pause
from forebay.model.task import Attempt, Role, Status, Task, WaitReason

Row = tuple[Any, ...]

TASK_NAMES = Task._fields[:-4]  # payload, result and progress are kept apart
TASK = ", ".join(TASK_NAMES)
JOB_NAMES = tuple(Job.__slots__)
ENDPOINT_NAMES = tuple(Endpoint.__slots__)
_STATUS = {str(status): status for status in Status}
_ROLE = {str(role): role for role in Role}
_WAIT: dict[str | None, WaitReason | None] = {None: None} | {str(reason): reason for reason in WaitReason}
_AT = {name: at for at, name in enumerate(TASK_NAMES)}
_STATUS_AT, _ROLE_AT, _WAIT_AT, _TAGS_AT = _AT["status"], _AT["role"], _AT["wait_reason"], _AT["tags"]


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
    page_start: int | None
    page_end: int | None


def task(row: Sequence[Any], payload: str | None = None, result: str | None = None) -> Task:
    """`row` begins with the columns of TASK."""
    values = list(row[: len(TASK_NAMES)])
    values[_STATUS_AT] = _STATUS[values[_STATUS_AT]]
    values[_ROLE_AT] = _ROLE[values[_ROLE_AT]]
    values[_WAIT_AT] = _WAIT[values[_WAIT_AT]]
    values[_TAGS_AT] = _tuple(values[_TAGS_AT])
    return Task._make((*values, payload, result, None, None))


def whole_task(row: Sequence[Any]) -> Task:
    """Return the task of a row of TASK, payload, result and the progress as `progress_text` wrote it, or None."""
    *_, payload, result, reported = row
    found = task(row, payload, result)
    return found if reported is None else Progress(found.id, *json.loads(reported)).shown_in(found)


def progress_text(progress: Sequence[Progress]) -> str | None:
    """Return a JSON object of task id to token, share and note; None without any."""
    return json.dumps({each.task_id: each[1:] for each in progress}) if progress else None


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


def endpoint(row: Row) -> Endpoint:
    return Endpoint(**dict(zip(ENDPOINT_NAMES, row, strict=True)))


def endpoint_values(value: Endpoint) -> dict[str, object]:
    return {name: getattr(value, name) for name in ENDPOINT_NAMES}


def session(row: Row) -> Session:
    id_, worker, lease_s, kinds, opened_at, expires_at, ended_at, exchange_n, drain_at, host, version = row
    return Session(
        id=id_,
        worker=worker,
        lease_s=lease_s,
        kinds=_tuple(kinds),
        opened_at=opened_at,
        expires_at=expires_at,
        ended_at=ended_at,
        exchange_n=exchange_n,
        drain_at=drain_at,
        host=host,
        version=version,
    )


def attempt(task_id: str, row: Row) -> Attempt:
    fields = dict(zip(Attempt.__slots__[1:], row, strict=True))
    fields["status"] = _STATUS[fields["status"]]
    fields["settled"] = bool(fields["settled"])
    return Attempt(task_id=task_id, **fields)


AUDIT = ", ".join(Audit.__slots__)


def audit(row: Row) -> Audit:
    fields = dict(zip(Audit.__slots__, row, strict=True))
    return Audit(**{**fields, "targets": _tuple(fields["targets"])})


def pause(row: Row) -> Pause:
    lane, at, until, note = row
    return Pause(lane=lane, at=at, until=until, note=note)


KEY_NAMES = ("id", "name", "sha256", "scopes", "tenant", "expires_at", "created_at", "revoked_at")


def key(row: Row) -> ApiKey:
    fields = dict(zip(KEY_NAMES, row, strict=True))
    return ApiKey(**{**fields, "scopes": _tuple(fields["scopes"])})


def event(row: Row) -> Event:
    number, at, name, fields = row
    return Event(name=name, fields=json.loads(fields), number=number, at=at)


def _text(values: tuple[str, ...]) -> str | None:
    return json.dumps(values) if values else None


def _tuple(text: str | None) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text else ()
