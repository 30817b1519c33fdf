"""What a ledger keeps as plain data for JSON: the model's own names, instants as ISO text, no inner numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from forebay.clock import iso
from forebay.model.job import Job
from forebay.model.payload import Json
from forebay.model.task import Task
from forebay.rules import rollup, verdict

# Where a task stands in its line, and what only its ledger compares.
_INNER = {"flow", "tag", "exchange_n", "payload_hash", "payload_json", "result_json", "merge_json"}
_INSTANTS = {"at", "until", "paused_until"}


def plain(record: object) -> dict[str, Json]:
    """One record; of a task without its payload and result."""
    made = {name: _value(name, value) for name, value in _items(record) if name not in _INNER}
    if isinstance(record, (Task, Job)) and record.error_class is not None:
        made["remedy"] = remedy(record.error_class)
    if isinstance(record, Job):
        made |= {"pending_count": record.pending_count, "progress": round(rollup.progress(record), 4)}
    return made


def plain_whole(task: Task) -> dict[str, Json]:
    """With payload and result, unless they lie in the blob store."""
    payload = None if task.payload_blob is not None and task.payload_json == "null" else task.payload
    return {**plain(task), "payload": payload, "result": task.result if task.result_blob is None else None}


def remedy(error_class: str | None) -> str:
    """What a person does about it; nothing for a class that is not in the table, such as a job's own."""
    known = {str(each) for each in verdict.ErrorClass}
    return verdict.of(verdict.parse(error_class)).remedy if error_class in known else ""


def _items(record: object) -> list[tuple[str, Any]]:
    if isinstance(record, Task):
        return list(record._asdict().items())
    if not is_dataclass(record):
        raise TypeError(f"{type(record).__name__} is no record")
    return [(each.name, getattr(record, each.name)) for each in fields(record)]


def _value(name: str, value: Any) -> Json:  # noqa: ANN401 - whatever a record holds
    if isinstance(value, float) and (name.endswith("_at") or name in _INSTANTS):
        return iso(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [_value("", each) for each in value]
    if isinstance(value, Mapping):
        return dict(value)
    plain_value: Json = value
    return plain_value
