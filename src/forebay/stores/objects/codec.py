"""Turns a unit into the bytes of its object, and back."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from forebay.model.exchange import Acted, Progress, Session, Usage
from forebay.model.job import Event, Job
from forebay.model.key import ApiKey
from forebay.model.task import Attempt, Role, Status, Task, WaitReason
from forebay.rules.unit import Unit


def pack(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def unit_bytes(unit: Unit, order: int) -> bytes:
    kept = [[task_id, token, asdict(used), at] for task_id, token, used, at in unit.usage]
    return pack(
        {
            "order": order,
            "deleted": unit.deleted,
            "tenants": {task.id: task.tenant for task in unit.tasks.values()} if unit.deleted else {},
            "claims": {task.id: task.claim_count for task in unit.tasks.values()} if unit.deleted else {},
            "usage": kept,
            "job": None if unit.deleted or unit.job is None else asdict(unit.job),
            "tasks": [] if unit.deleted else [task._asdict() for task in unit.tasks.values()],
            "attempts": [] if unit.deleted else [asdict(past) for past in unit.attempts],
            "events": [] if unit.deleted else [asdict(event) for event in unit.events],
            "acted": {} if unit.deleted else {key: asdict(done) for key, done in unit.acted.items()},
        }
    )


def unit_of(data: dict[str, Any]) -> Unit:
    tasks = [_task(fields) for fields in data["tasks"]]
    return Unit(
        job=data["job"] and _job(data["job"]),
        tasks={task.id: task for task in tasks},
        attempts=[Attempt(**{**fields, "status": Status(fields["status"])}) for fields in data["attempts"]],
        events=[Event(**fields) for fields in data["events"]],
        usage=[(task_id, token, Usage(**used), at) for task_id, token, used, at in data["usage"]],
        acted={key: Acted(**fields) for key, fields in data["acted"].items()},
    )


def session_of(data: dict[str, Any]) -> Session:
    reported = tuple(Progress(*each) for each in data.get("progress", ()))
    return Session(**{**data, "kinds": tuple(data["kinds"]), "progress": reported})


def key_of(data: dict[str, Any]) -> ApiKey:
    return ApiKey(**{**data, "scopes": tuple(data["scopes"])})


def _task(fields: dict[str, Any]) -> Task:
    reason = fields["wait_reason"]
    return Task(
        **{
            **fields,
            "status": Status(fields["status"]),
            "role": Role(fields["role"]),
            "wait_reason": reason and WaitReason(reason),
            "tags": tuple(fields["tags"]),
        }
    )


def _job(fields: dict[str, Any]) -> Job:
    return Job(**{**fields, "status": Status(fields["status"]), "tags": tuple(fields["tags"])})
