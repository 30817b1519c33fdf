"""Chooses the statement of a filtered list, so that its rows are read from the index that holds fewest others."""

from __future__ import annotations

from collections.abc import Mapping

from forebay.model.task import Status
from forebay.stores.sql.statement import Statement

LOOKED_AT = 1000
"""How many rows a page passes over at most where no index has just what the list asks for."""

# Plans are made once for all arguments, so a status that has its own index needs a statement of its own.
_OF_JOB: dict[object, str] = {Status.PENDING: "list_pending_of_job", Status.RUNNING: "list_running_of_job"}
_BY_STATUS: dict[object, str] = {
    Status.PENDING: "list_pending",
    Status.COMPLETED: "list_completed",
    Status.FAILED: "list_dead",
    Status.CANCELED: "list_dead",
}


def choose_list(statement: Statement) -> Statement:
    """Return the statement to run for a list of tasks or of jobs; others are returned as they are."""
    name, arguments = statement
    given = {key for key, value in arguments.items() if value is not None}
    if name == "list_tasks_of_job":
        name = _OF_JOB.get(arguments.get("status"), name)
    elif name == "list_tasks":
        return Statement(_choose_tasks(arguments, given), {**arguments, "look": LOOKED_AT})
    elif name == "list_jobs" and "tag" in given:
        name = "list_tagged_jobs"
    elif name == "list_jobs" and given & {"status", "kind", "tenant"}:
        name = "list_filtered_jobs"
    return Statement(name, arguments)


def _choose_tasks(arguments: Mapping[str, object], given: set[str]) -> str:
    status = arguments.get("status")
    if "tag" in given:
        return "list_tagged"
    if "tenant" in given:
        return f"{_BY_STATUS[status]}_of_tenant" if status else "list_by_tenant"
    if status == Status.PENDING and given & {"kind", "role"}:
        return "list_pending_filtered"
    if status:
        return _BY_STATUS[status]
    return "list_by_kind" if given & {"kind", "role"} else "list_tasks"
