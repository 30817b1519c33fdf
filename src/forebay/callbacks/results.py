"""Adds to a callback the result that it tells of, as long as that is small enough."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from forebay.errors import NotFound, ResultCorrupt
from forebay.model.payload import Json
from forebay.model.task import Status, Task

GONE, LOST, NOT_JSON, TOO_LARGE = "gone", "lost", "not_json", "too_large"


def add_result(
    body: Mapping[str, Any],
    *,
    find: Callable[[str], Task | None],
    read: Callable[[Task], Json | bytes],
    max_bytes: int,
) -> dict[str, Any]:
    """Return the body with `result`, and with `result_omitted` where there is none to add. Blocking."""
    data = body.get("data")
    if not isinstance(data, dict) or "result_of" not in data:
        return dict(body)
    result, omitted = _result(find(str(data["result_of"])), read, max_bytes)
    return {**body, "data": {**data, "result": result, "result_omitted": omitted}}


def _result(task: Task | None, read: Callable[[Task], Json | bytes], max_bytes: int) -> tuple[Json, str | None]:
    if task is None or task.status is not Status.COMPLETED:
        return None, GONE
    try:
        found = read(task)
    except (NotFound, ResultCorrupt):
        return None, LOST
    if isinstance(found, bytes):
        if len(found) > max_bytes:
            return None, TOO_LARGE
        try:
            found = json.loads(found)
        except ValueError:
            return None, NOT_JSON
    if len(json.dumps(found, ensure_ascii=False).encode()) > max_bytes:
        return None, TOO_LARGE
    return found, None
