"""One transaction of a ledger: gathers what its steps write, so that it goes out with the next question."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from forebay.model.job import Event, Job
from forebay.model.task import Role, Status
from forebay.rules import rollup
from forebay.stores.sql import rows
from forebay.stores.sql.statement import Batch, Statement, Steps, encode


class Transaction:
    """What a step works with.

    `alone`: nothing changes but by this transaction, so that what was read stays true. Otherwise rows are locked:
    lone tasks first, then jobs, then tasks of jobs, each by id; `patient` says that it waits for all of
    them, where it else leaves out the jobs that others are busy with; `careful`, that nothing is taken for granted
    which the database itself would refuse. `repeatable` says that it may run again whatever became of its last batch:
    what is there already is found then. `doubtful` says that the run before may have been committed. `now` is known
    once the first batch is answered, and may rise with each.
    """

    def __init__(
        self, *, alone: bool, now: float = 0.0, patient: bool = False, careful: bool = True, doubtful: bool = False
    ) -> None:
        self.alone = alone
        self.patient = patient
        self.careful = careful
        self.doubtful = doubtful
        self.now = now
        self.woken = False
        self.repeatable = False
        self.jobs: dict[str, Job] = {}
        self._new: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        self._events: list[tuple[str, Event]] = []
        self.noted: list[tuple[str, Event]] = []  # what was written, for the log
        self._writes: list[Statement] = []

    def ask(self, *statements: Statement, last: bool = False) -> Steps[list[list[Any]]]:
        """The rows of each; what was written before goes first, with the `last` one all that was gathered."""
        if last:
            self._gather()
        writes, self._writes = self._writes, []
        answered = yield Batch([*writes, *statements], last)
        return answered[len(writes) :]

    def one(self, name: str, *, last: bool = False, **arguments: object) -> Steps[list[Any]]:
        (found,) = yield from self.ask(Statement(name, arguments), last=last)
        return found

    def locked_rows(self, name: str, **arguments: object) -> Steps[list[Any]]:
        """Rows that a statement locks, as they are once they are locked.

        A row that changed before its lock came is checked again by itself, but against what was joined to it before:
        asked a second time, under the lock, the statement sees both as they are.
        """
        if self.alone:
            (found,) = yield from self.ask(Statement(name, arguments))
            return found
        first, again = yield from self.ask(Statement(name, arguments), Statement(name, arguments))
        known = set(again)
        return [row for row in first if row in known]

    def write(self, name: str, **arguments: object) -> None:
        self._writes.append(Statement(name, arguments))

    def finish(self) -> Steps[None]:
        self._gather()
        if self._writes:
            yield from self.ask(last=True)

    def _gather(self) -> None:
        for name, gathered in (("add_jobs", self._new), ("put_jobs", self._changed)):
            if gathered:
                self.write(name, rows=[rows.job_values(self.jobs[job_id]) for job_id in gathered])
        if self._events:
            written = [[job_id, e.number, e.at, e.name, encode(dict(e.fields))] for job_id, e in self._events]
            self.write("add_events", rows=written)
            self.noted += self._events
        self._new, self._changed, self._events = {}, {}, []

    def forget(self) -> None:
        """Drop what a step gathered before it failed, and what it read."""
        self.jobs, self._new, self._changed, self._events, self._writes = {}, {}, {}, [], []

    def load_jobs(self, ids: Iterable[str | None]) -> Steps[None]:
        if missing := self.missing(ids):
            self.took_jobs((yield from self.one("jobs", ids=missing)))

    def missing(self, ids: Iterable[str | None]) -> list[str]:
        return sorted({name for name in ids if name is not None and name not in self.jobs})

    def took_jobs(self, found: Iterable[Any]) -> None:
        for row in found:
            self.jobs[row[0]] = rows.job(row)

    def drop_job(self, job_id: str) -> None:
        self.jobs.pop(job_id, None)
        self._changed.pop(job_id, None)

    def add_job(self, job: Job) -> None:
        self.jobs[job.id] = job
        self._new[job.id] = None

    def put_job(self, job: Job) -> None:
        self.jobs[job.id] = job
        if job.id not in self._new:
            self._changed[job.id] = None

    def count(self, job: Job, role: Role, before: Status | None, after: Status) -> Job:
        counted = rollup.counted(job, rollup.tally(role, before, after))
        self.put_job(counted)
        return counted

    def note(self, job: Job, event: Event) -> Job:
        noted = rollup.noted(job)
        self.put_job(noted)
        self.add_event(noted.id, noted.event_count, event)
        return noted

    def add_event(self, job_id: str, number: int, event: Event) -> None:
        self._events.append((job_id, replace(event, number=number, at=self.now)))
