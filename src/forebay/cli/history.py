"""The command that tells what happened: history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.cells import clock_time
from forebay.cli.opening import opened
from forebay.cli.options import Id, Reading

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay
    from forebay.model.exchange import Audit
    from forebay.model.job import Event
    from forebay.model.task import Task

_USUAL = Reading()
_AT_ONCE = 500
_AUDITED = 1000


def history(identifier: Annotated[Id, Parameter(name="ID")], /, *, common: Reading = _USUAL) -> None:
    """With --verbose, tracebacks too. JSON has the attempts that ended; of a job, its events."""
    from forebay.cli.versions import versions, write_versions
    from forebay.model.job import Job

    with opened(common) as app:
        found = app.get(app.resolve(identifier))
        if isinstance(found, Job):
            _write_events(_events(app, found.id), common)
            return
        attempts = app.history(found.id)
        if common.output != "table":
            output.write(attempts, common.output)
            return
        workers = {session.id: session.worker for session in app.ledger.sessions()}
        requests = _retries_of(app, found) if found.generation > 1 else []
    worker = workers.get(found.session_id or "", "")
    write_versions(list(versions(found, attempts, worker, requests)), tracebacks=common.verbose)


def _retries_of(app: Forebay, task: Task) -> list[Audit]:
    """Return the retries that people asked for, of the task or of its job, the oldest first."""
    from forebay.cli.versions import RETRIES

    targets = [task.id] if task.job_id is None else [task.id, task.job_id]
    lines = [line for target in targets for line in app.ledger.audit(most=_AUDITED, target=target)]
    return sorted((line for line in lines if line.verb in RETRIES), key=lambda line: line.at)


def _events(app: Forebay, job_id: str) -> Iterator[Event]:
    after = 0
    while page := app.ledger.events(job_id, after=after, most=_AT_ONCE):
        yield from page
        after = page[-1].number


def _write_events(events: Iterator[Event], common: Reading) -> None:
    if common.output == "table":
        rows = [(str(each.number), clock_time(each.at), each.name, _fields(each)) for each in events]
        output.table(("number", "at", "name", "fields"), rows)
    else:
        output.write(events, common.output)


def _fields(event: Event) -> str:
    return " ".join(f"{name}={output.json_text(value)}" for name, value in event.fields.items())
