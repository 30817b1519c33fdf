"""The reads of a ledger in SQL, each from one consistent snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from forebay import ids
from forebay.errors import BadInput
from forebay.model.callback import Endpoint
from forebay.model.exchange import Audit, Remembered, Session, Usage
from forebay.model.job import Event, Job
from forebay.model.lane import Certainty, Depth, Lane, LaneState
from forebay.model.query import Page, Query
from forebay.model.task import Attempt, Status, Task
from forebay.rules import pausing
from forebay.rules.pausing import Counts
from forebay.stores.base import MAX_AHEAD
from forebay.stores.sql import rows
from forebay.stores.sql.statement import Row, Statement, Steps, ask
from forebay.stores.sql.transaction import Transaction

T = TypeVar("T")
_LONGEST = 18  # digits of a row number
_DIGITS = 3  # of an estimate: it is not surer than that


def get(tx: Transaction, task_id: str) -> Steps[Task | None]:
    found = yield from tx.one("task", id=task_id)
    return rows.whole_task(found[0]) if found else None


def get_many(tx: Transaction, task_ids: Sequence[str]) -> Steps[list[Task]]:
    found = yield from tx.one("tasks", ids=list(task_ids))
    by_id = {row[0]: rows.whole_task(row) for row in found}
    return [by_id[task_id] for task_id in task_ids if task_id in by_id]


def get_job(tx: Transaction, job_id: str) -> Steps[Job | None]:
    found = yield from tx.one("job", id=job_id)
    return rows.job(found[0]) if found else None


def find(tx: Transaction, prefix: str) -> Steps[list[str]]:
    # "~" sorts behind every character of an id.
    found = yield from tx.one("find", first=prefix, last_one=prefix + "~")
    return [row[0] for row in found]


def list_tasks(tx: Transaction, query: Query) -> Steps[Page[Task]]:
    filters: dict[str, object] = {
        "status": query.status,
        "kind": query.kind,
        "tenant": query.tenant,
        "job_id": query.job_id,
        "role": query.role,
    }
    name = "list_running" if query.status == Status.RUNNING else "list_tasks"
    if query.job_id is not None:
        name = "list_tasks_of_job"
    (found,) = yield from tx.ask(Statement(name, filters | _paging(query)))
    return _page(found, query, rows.task)


def list_jobs(tx: Transaction, query: Query) -> Steps[Page[Job]]:
    filters: dict[str, object] = {"status": query.status, "kind": query.kind, "tenant": query.tenant}
    (found,) = yield from tx.ask(Statement("list_jobs", filters | _paging(query)))
    return _page(found, query, rows.job)


def _paging(query: Query) -> dict[str, object]:
    return {"tag": query.tag, "after": _cursor(query.after), "most": query.size + 1}


def _cursor(after: str | None) -> int | None:
    if after is not None and not (after.isascii() and after.isdecimal() and len(after) <= _LONGEST):
        raise BadInput(f"{ids.shown(after)} is not a cursor.", remedy="Pass on the one that a page came with.")
    return None if after is None else int(after)


def _page(found: list[Any], query: Query, make: Callable[[rows.Row], T]) -> Page[T]:
    """A last row without an id says where a list goes on that has looked at as much as a page may."""
    kept = [row for row in found if row[0] is not None]
    shown = kept[: query.size]
    ends = shown[-1] if len(kept) > query.size else next((row for row in found if row[0] is None), None)
    return Page(tuple(make(row[:-1]) for row in shown), None if ends is None else str(ends[-1]))


def count(tx: Transaction, tenant: str | None) -> Steps[dict[tuple[str, Status], int]]:
    counted = yield from tx.one("count", tenant=tenant)
    return {(kind, Status(status)): n for kind, status, n in counted}


def open_job_count(tx: Transaction, tenant: str) -> Steps[int]:
    found = yield from tx.one("open_job_count", tenant=tenant)
    return int(found[0][0])


def lanes(tx: Transaction) -> Steps[list[Lane]]:
    found = yield from tx.one("lane_counts")
    pauses = pausing.in_force((rows.pause(row[:4]) for row in found if row[1] is not None), tx.now)
    counted = {
        lane: Counts(int(ready), int(later), int(running), oldest_at)
        for lane, _, _, _, ready, later, running, oldest_at in found
        if ready or later or running
    }
    return pausing.lanes(counted, pauses)


def lane_state(tx: Transaction, lane: str) -> Steps[LaneState]:
    ((running, *pause),) = yield from tx.one("lane_state", lane=lane)
    found = [rows.pause((lane, *pause))] if pause[0] is not None else []
    return LaneState(pause=pausing.in_force(found, tx.now).get(lane), running_count=running)


def ahead(tx: Transaction, task_id: str) -> Steps[Depth]:
    names = ("kind", "lane", "priority", "tag", "available_at", "seq")
    own = yield from tx.one("place", id=task_id)
    if not own:
        return Depth(0)
    place = dict(zip(names, own[0], strict=True))
    statement = "ready_in_lane" if place["tag"] is None else "ahead"
    ((counted,),) = yield from tx.one(statement, **place, most=MAX_AHEAD)
    if counted < MAX_AHEAD:
        return Depth(int(counted))
    ((estimate, line_size, sampled),) = yield from tx.one("ahead_of_many", **place)
    if not sampled:
        return Depth(int(estimate))
    about = round(estimate, _DIGITS - len(str(estimate)))
    if line_size is not None:
        about = min(about, line_size)
    return Depth(max(about, MAX_AHEAD), Certainty.ABOUT)


def instant(tx: Transaction) -> Steps[float]:
    """Return the ledger's own time."""
    yield from tx.one("environment")
    return tx.now


def environment(tx: Transaction) -> Steps[str | None]:
    found = yield from tx.one("environment")
    return found[0][0] if found else None


def sessions(tx: Transaction) -> Steps[list[Session]]:
    return [rows.session(row) for row in (yield from tx.one("sessions"))]


def mine(tx: Transaction, session_id: str) -> Steps[list[Task]]:
    return [rows.task(row, row[-1]) for row in (yield from tx.one("mine", session_id=session_id))]


def history(tx: Transaction, task_id: str) -> Steps[list[Attempt]]:
    return [rows.attempt(task_id, row) for row in (yield from tx.one("history", id=task_id))]


def news(tx: Transaction, asked: Sequence[tuple[str, int]], most: int) -> Steps[list[list[Event]]]:
    answers: list[list[Event]] = [[] for _ in asked]
    # They are numbered without gaps: where to stop is known before.
    spans = [[at, job_id, after, after + most] for at, (job_id, after) in enumerate(asked)]
    for row in (yield from tx.one("news", asked=spans)):
        answers[row[0]].append(rows.event(row[1:]))
    return answers


def audit(tx: Transaction, most: int, target: str | None) -> Steps[list[Audit]]:
    statement = ask("audit", most=most) if target is None else ask("audit_of", target=target, most=most)
    (found,) = yield from tx.ask(statement)
    return [rows.audit(row) for row in found]


def newer_schema(tx: Transaction, newest: int) -> Steps[int | None]:
    return newer_than((yield from tx.one("schema")), newest)


def newer_than(found: Sequence[Row], newest: int) -> int | None:
    """Return the schema that was read, if it is newer than this."""
    ((schema,),) = found
    return schema if schema is not None and schema > newest else None


def used(tx: Transaction, tenant: str | None, since: float) -> Steps[list[Usage]]:
    return [Usage(*row) for row in (yield from tx.one("used", tenant=tenant, since=since))]


def recall(tx: Transaction, tenant: str, keys: Sequence[str]) -> Steps[list[Remembered]]:
    found = yield from tx.one("recall", tenant=tenant, keys=list(keys))
    names = ("tenant", "key", "document", "result_json", "result_blob", "created_at")
    return [Remembered(**dict(zip(names, row, strict=True))) for row in found]


def endpoint(tx: Transaction, endpoint_id: str) -> Steps[Endpoint | None]:
    found = yield from tx.one("endpoint", id=endpoint_id)
    return rows.endpoint(found[0]) if found else None


def endpoints(tx: Transaction, tenant: str | None) -> Steps[list[Endpoint]]:
    return [rows.endpoint(row) for row in (yield from tx.one("endpoints", tenant=tenant))]


def blobs_in_use(tx: Transaction, tenant: str, sha256s: Sequence[str]) -> Steps[set[str]]:
    return {row[0] for row in (yield from tx.one("blobs_in_use", asked=list(sha256s), tenant=tenant))}
