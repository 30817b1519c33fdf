"""The commands that look at tasks and jobs: get, list, why."""

from __future__ import annotations

import time
from typing import Annotated, Any

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.cells import when
from forebay.cli.opening import opened
from forebay.cli.options import All, Id, Kind, Limit, Reading, States
from forebay.ids import printable

_USUAL = Reading()


def get(identifier: Annotated[Id, Parameter(name="ID")], /, *, common: Reading = _USUAL) -> None:
    from forebay.cli.records import show
    from forebay.model.job import Job
    from forebay.pipelines.tracking import track

    with opened(common) as app:
        found = app.get(app.resolve(identifier))
        pages = track(app.ledger, found) if isinstance(found, Job) else None
        show(found, app.look().standing(found), common, pages)


def listing(
    *,
    status: Annotated[States | None, Parameter(help="Only this status.")] = None,
    kind: Kind = None,
    tenant: Annotated[str | None, Parameter(help="Only this tenant.")] = None,
    tag: Annotated[str | None, Parameter(help="Only what carries this tag.")] = None,
    job: Annotated[str | None, Parameter(help="Only tasks of this job, in the order they were made.")] = None,
    jobs: Annotated[bool, Parameter(negative="", help="Jobs instead of tasks.")] = False,
    limit: Limit = None,
    every: All = False,
    common: Reading = _USUAL,
) -> None:
    from forebay.cli.pages import check_most, pages, write_list
    from forebay.cli.records import JOB_COLUMNS, TASK_COLUMNS, TaskView, job_rows

    most = check_most(limit, every=every)
    with opened(common) as app:
        filters: dict[str, Any] = {"status": status, "kind": kind, "tenant": tenant, "tag": tag}
        if job is not None:
            filters["job_id"] = app.resolve(job)
        found = pages(app, filters, jobs=jobs, most=most)
        if jobs:
            write_list(found, common, JOB_COLUMNS, job_rows, most=most)
        else:
            view = TaskView(app.look())
            write_list(found, common, TASK_COLUMNS, view.rows, most=most, plainly=view.plain)


def why(identifier: Annotated[Id, Parameter(name="ID")], /, *, common: Reading = _USUAL) -> None:
    """The first reason is what to look at."""
    from forebay.app.plain import plain_standing
    from forebay.cli.standings import outlook_lines

    with opened(common) as app:
        standing = app.standing(app.resolve(identifier))
    if common.output != "table":
        output.write([plain_standing(standing)], common.output, one=True)
        return
    now = time.time()
    for number, reason in enumerate(standing.reasons, 1):
        until = f", until {when(reason.until, now)}" if reason.until is not None else ""
        who = f", paused by {reason.paused_by}" if reason.paused_by else ""
        output.line(printable(f"{number}. {reason.code}: {reason.text}{who}{until}"))
    for line in outlook_lines(standing, now):
        output.line(printable(line))
