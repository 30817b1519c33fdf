"""The reads of the SQLite ledger, each from one consistent snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw

from forebay import ids
from forebay.errors import BadInput
from forebay.model.exchange import Audit, Remembered, Session, Usage
from forebay.model.job import Event, Job
from forebay.model.lane import Lane
from forebay.model.query import Page, Query
from forebay.model.task import Attempt, Status, Task
from forebay.rules import pausing
from forebay.rules.pausing import Counts
from forebay.stores.base import MAX_AHEAD
from forebay.stores.sqlite import rows
from forebay.stores.sqlite.queries import sql
from forebay.stores.sqlite.transaction import encode

T = TypeVar("T")
_LONGEST = 18  # digits of a row number


def get(db: apsw.Connection, task_id: str) -> Task | None:
    row = db.execute(
        f"SELECT {rows.TASK}, payload, result FROM tasks"  # noqa: S608 - constant
        " LEFT JOIN payloads AS p ON p.task_seq = seq LEFT JOIN results AS r ON r.task_seq = seq WHERE id = ?",
        (task_id,),
    ).fetchone()
    return rows.task(row, row[-2], row[-1]) if row else None


def get_job(db: apsw.Connection, job_id: str) -> Job | None:
    row = db.execute(sql("jobs"), {"ids": encode([job_id])}).fetchone()
    return rows.job(row) if row else None


def find(db: apsw.Connection, prefix: str) -> list[str]:
    # "~" sorts behind every character of an id.
    found = db.execute(
        "SELECT id FROM tasks WHERE id BETWEEN :a AND :b UNION SELECT id FROM jobs WHERE id BETWEEN :a AND :b"
        " ORDER BY id LIMIT 2",
        {"a": prefix, "b": prefix + "~"},
    )
    return [row[0] for row in found]


def list_tasks(db: apsw.Connection, query: Query) -> Page[Task]:
    filters = {
        "status": query.status,
        "kind": query.kind,
        "tenant": query.tenant,
        "job_id": query.job_id,
        "role": query.role,
    }
    found = _listed(db, "tasks", rows.TASK, filters, query, oldest_first=query.job_id is not None)
    return _page(found, query, rows.task)


def list_jobs(db: apsw.Connection, query: Query) -> Page[Job]:
    filters = {"status": query.status, "pipeline": query.kind, "tenant": query.tenant}
    found = _listed(db, "jobs", ", ".join(rows.JOB_NAMES), filters, query, oldest_first=False)
    return _page(found, query, rows.job)


def _listed(
    db: apsw.Connection,
    table: str,
    columns: str,
    filters: dict[str, str | None],
    query: Query,
    *,
    oldest_first: bool,
) -> list[Any]:
    used = {name: value for name, value in filters.items() if value is not None}
    where = [f"{name} = :{name}" for name in used]
    if query.tag is not None:
        where.append("EXISTS (SELECT 1 FROM json_each(tags) WHERE value = :tag)")
    if query.after is not None:
        where.append(f"seq {'>' if oldest_first else '<'} :after")
    statement = (
        f"SELECT {columns}, seq FROM {table} WHERE {' AND '.join(where) or 'true'}"  # noqa: S608 - names are ours
        f" ORDER BY seq {'ASC' if oldest_first else 'DESC'} LIMIT :most"
    )
    arguments = {**used, "tag": query.tag, "after": _cursor(query.after), "most": query.size + 1}
    return list(db.execute(statement, arguments))


def _cursor(after: str | None) -> int:
    if after is not None and not (after.isascii() and after.isdecimal() and len(after) <= _LONGEST):
        raise BadInput(f"{ids.shown(after)} is not a cursor.", remedy="Pass on the one that a page came with.")
    return int(after or 0)


def _page(found: list[Any], query: Query, make: Callable[[rows.Row], T]) -> Page[T]:
    shown = found[: query.size]
    more = len(found) > query.size
    return Page(tuple(make(row[:-1]) for row in shown), str(shown[-1][-1]) if more else None)


def count(db: apsw.Connection, tenant: str | None) -> dict[tuple[str, Status], int]:
    counted = db.execute(
        "SELECT kind, status, count(*) FROM tasks WHERE ?1 IS NULL OR tenant = ?1 GROUP BY kind, status", (tenant,)
    )
    return {(kind, Status(status)): n for kind, status, n in counted}


def lanes(db: apsw.Connection, now: float) -> list[Lane]:
    found = list(db.execute(sql("lane_counts"), {"now": now}))
    pauses = pausing.in_force((rows.pause(row[:4]) for row in found if row[1] is not None), now)
    return pausing.lanes({row[0]: Counts(*row[4:]) for row in found if any(row[4:])}, pauses)


def ahead(db: apsw.Connection, task_id: str, now: float) -> int:
    names = ("kind", "lane", "priority", "tag", "available_at", "seq")
    own = db.execute(f"SELECT {', '.join(names)} FROM tasks WHERE id = ? AND status = 'pending'", (task_id,)).fetchone()  # noqa: S608 - constant
    if own is None:
        return 0
    place = dict(zip(names, own, strict=True))
    statement = "ready_in_lane" if place["tag"] is None else "ahead"
    counted: int = db.execute(sql(statement), {**place, "now": now, "most": MAX_AHEAD}).get
    return counted


def sessions(db: apsw.Connection) -> list[Session]:
    return [rows.session(row) for row in db.execute("SELECT * FROM sessions WHERE ended_at IS NULL")]


def needs_rescue(db: apsw.Connection, now: float) -> bool:
    expired = db.execute("SELECT 1 FROM sessions WHERE ended_at IS NULL AND expires_at <= ? LIMIT 1", (now,)).fetchone()
    return bool(expired or db.execute(sql("lost"), {"now": now, "most": 1}).fetchone())


def mine(db: apsw.Connection, session_id: str) -> list[Task]:
    return [rows.task(row, row[-1]) for row in db.execute(sql("mine"), {"session_id": session_id})]


def history(db: apsw.Connection, task_id: str) -> list[Attempt]:
    found = db.execute(
        "SELECT h.* FROM tasks JOIN history AS h ON task_seq = seq WHERE id = ? ORDER BY token", (task_id,)
    )
    return [rows.attempt(task_id, row[1:]) for row in found]


def events(db: apsw.Connection, job_id: str, after: int, most: int) -> list[Event]:
    found = db.execute(
        "SELECT number, at, name, fields FROM events WHERE job_id = ? AND number > ? ORDER BY number LIMIT ?",
        (job_id, after, most),
    )
    return [rows.event(row) for row in found]


def audit(db: apsw.Connection, most: int) -> list[Audit]:
    found = db.execute(f"SELECT {rows.AUDIT} FROM audit ORDER BY seq DESC LIMIT ?", (most,))  # noqa: S608 - constant
    return [rows.audit(row) for row in found]


def used(db: apsw.Connection, tenant: str | None) -> list[Usage]:
    found = db.execute(
        "SELECT meter, unit, sum(amount) FROM usage WHERE ?1 IS NULL OR tenant = ?1 GROUP BY meter, unit"
        " ORDER BY meter, unit",
        (tenant,),
    )
    return [Usage(*row) for row in found]


def recall(db: apsw.Connection, tenant: str, keys: Sequence[str]) -> list[Remembered]:
    found = db.execute(
        "SELECT tenant, key, document, result_json, result_blob, created_at FROM remembered"
        " WHERE tenant = ? AND key IN (SELECT value FROM json_each(?))",
        (tenant, encode(list(keys))),
    )
    names = ("tenant", "key", "document", "result_json", "result_blob", "created_at")
    return [Remembered(**dict(zip(names, row, strict=True))) for row in found]


def blobs_in_use(db: apsw.Connection, tenant: str, sha256s: Sequence[str]) -> set[str]:
    found = db.execute(
        "SELECT value FROM json_each(:asked) WHERE"
        " EXISTS (SELECT 1 FROM tasks WHERE payload_blob = value AND tenant = :tenant)"
        " OR EXISTS (SELECT 1 FROM tasks WHERE result_blob = value AND tenant = :tenant)"
        " OR EXISTS (SELECT 1 FROM jobs WHERE document = value AND tenant = :tenant)"
        " OR EXISTS (SELECT 1 FROM remembered WHERE result_blob = value AND tenant = :tenant)",
        {"asked": encode(list(sha256s)), "tenant": tenant},
    )
    return {row[0] for row in found}
