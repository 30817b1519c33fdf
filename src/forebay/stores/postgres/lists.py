"""Chooses the statement of a filtered list, so that its rows are read from the index that holds fewest others."""

from __future__ import annotations

from collections.abc import Mapping

from forebay.model.task import Status
from forebay.stores.sql.statement import Statement

# Plans are made once for all arguments, so a status that has its own index needs a statement of its own.
_BY_STATUS: dict[object, str] = {
    Status.PENDING: "list_pending",
    Status.COMPLETED: "list_completed",
    Status.CANCELED: "list_canceled",
}
_OF_JOB: dict[object, str] = {Status.PENDING: "list_pending_of_job", Status.RUNNING: "list_running_of_job"}


def choose_list(statement: Statement) -> Statement:
    """Return the statement to run for a list of tasks or of jobs; others are returned as they are."""
    name, arguments = statement
    if not name.startswith("list_"):
        return statement
    given = {key for key, value in arguments.items() if value is not None}
    if name == "list_tasks_of_job":
        name = _OF_JOB.get(arguments.get("status"), name)
    elif name == "list_tasks":
        name = _choose_tasks(arguments, given)
    elif name == "list_jobs" and "tag" in given:
        name = "list_tagged_jobs"
    elif name == "list_jobs" and given & {"status", "kind", "tenant"}:
        name = "list_filtered_jobs"
    return Statement(name, arguments)


def _choose_tasks(arguments: Mapping[str, object], given: set[str]) -> str:
    status = arguments.get("status")
    if status == Status.FAILED:
        return "list_failed"  # the fewest, whatever else is asked for
    if "tag" in given:
        return "list_tagged"
    if "tenant" in given or ("kind" in given and status != Status.PENDING):
        return "list_filtered"
    return _BY_STATUS.get(status, "list_tasks")
