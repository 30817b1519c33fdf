"""What a ledger keeps as plain data for JSON: the model's own names, instants as ISO text, no inner numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from forebay.clock import iso
from forebay.model.exchange import Submitted
from forebay.model.job import Job
from forebay.model.lane import Lane
from forebay.model.payload import Json
from forebay.model.task import Task
from forebay.rules import rollup, verdict
from forebay.rules.settlement import MAX_REQUESTED_RETRIES
from forebay.rules.standing import Standing

# Where a task stands in its line, and what only its ledger compares.
_INNER = {"flow", "tag", "exchange_n", "payload_hash", "payload_json", "result_json", "merge_json", "callback_json"}
_REPORTED = {"progress", "progress_note"}  # what only a task that is read alone has
_INSTANTS = {"at", "until", "paused_until", "cooldown_until"}
# Of a standing: what rows of a list have, and what takes a question for each of them.
_GLANCED = ("wait_reason", "limit", "backoff_s", "backoff_level", "cooldown_until")
_ETAS = ("eta_s", "eta_at", "end_eta_s", "end_eta_at")
_WAITS = (*_GLANCED, "position", "position_is", *_ETAS, "binds", "more_workers_help")
_OF_JOBS = ("last_eta_s", "calls_left_count")


def plain(record: object) -> dict[str, Json]:
    """Return one record; a task without its payload, result and progress."""
    hidden = _INNER | _REPORTED if isinstance(record, Task) else _INNER
    made = {name: _value(name, value) for name, value in _items(record) if name not in hidden}
    if isinstance(record, (Task, Job)) and record.error_class is not None:
        made["remedy"] = remedy(record.error_class)
    if isinstance(record, Task):
        made["max_requested_retries"] = MAX_REQUESTED_RETRIES
    if isinstance(record, Job):
        made |= {"pending_count": record.pending_count, "progress": round(rollup.progress(record), 4)}
    return made


def plain_whole(task: Task) -> dict[str, Json]:
    """Return a task with its progress, and with payload and result, unless they lie in the blob store."""
    payload = None if task.payload_blob is not None and task.payload_json == "null" else task.payload
    result = task.result if task.result_blob is None else None
    reported: dict[str, Json] = {"progress": task.progress, "progress_note": task.progress_note}
    return {**plain(task), **reported, "payload": payload, "result": result}


def whole(found: Task | Job) -> dict[str, Json]:
    return plain_whole(found) if isinstance(found, Task) else plain(found)


def plain_open(found: Task | Job, standing: Standing) -> dict[str, Json]:
    """With where it stands; what has ended stands nowhere."""
    if found.status.terminal:
        return whole(found)
    return whole(found) | _some(standing, (*_WAITS, *_OF_JOBS) if isinstance(found, Job) else _WAITS)


def plain_row(task: Task, standing: Standing) -> dict[str, Json]:
    """One of many: without what only a question of its own would tell."""
    return plain(task) if task.status.terminal else plain(task) | _some(standing, _GLANCED)


def plain_lane(lane: Lane, standing: Standing) -> dict[str, Json]:
    """With how the next of its ready tasks stands, if there is one."""
    next_one: dict[str, Json] = _some(standing, _WAITS) if lane.ready_count else dict.fromkeys(_WAITS)
    return plain(lane) | next_one


def plain_standing(standing: Standing) -> dict[str, Json]:
    reasons: list[Json] = [plain(reason) for reason in standing.reasons]
    return {"reasons": reasons, **_some(standing, (*_WAITS, *_OF_JOBS))}


def _some(standing: Standing, names: Iterable[str]) -> dict[str, Json]:
    return {name: _value(name, getattr(standing, name)) for name in names}


def remedy(error_class: str | None) -> str:
    """What a person does about it; nothing for a class that is not in the table, such as a job's own."""
    known = {str(each) for each in verdict.ErrorClass}
    return verdict.of(verdict.parse(error_class)).remedy if error_class in known else ""


def _items(record: object) -> list[tuple[str, Any]]:
    if isinstance(record, (Task, Submitted)):
        return list(record._asdict().items())
    if not is_dataclass(record):
        raise TypeError(f"{type(record).__name__} is not a record")
    return [(each.name, getattr(record, each.name)) for each in fields(record)]


def _value(name: str, value: Any) -> Json:  # noqa: ANN401 - whatever a record holds
    if isinstance(value, float) and (name.endswith("_at") or name in _INSTANTS):
        return iso(value)
    if isinstance(value, float) and name.endswith(("eta_s", "backoff_s")):
        return round(value, 3)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [_value("", each) for each in value]
    if isinstance(value, Mapping):
        return dict(value)
    plain_value: Json = value
    return plain_value
