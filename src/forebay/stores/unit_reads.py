"""The reads of a ledger that keeps each unit whole."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

from forebay import ids
from forebay.errors import BadInput, StoreClosed
from forebay.model.callback import Endpoint
from forebay.model.exchange import Acted, Audit, Progress, Remembered
from forebay.model.job import Event, Job
from forebay.model.names import check_name
from forebay.model.query import Page, Query
from forebay.model.task import Attempt, Status, Task
from forebay.rules.unit import Unit

T = TypeVar("T")
P = ParamSpec("P")
Reads = TypeVar("Reads", bound="UnitReads")
_CURSOR = re.compile("[0-9]{1,18}")


def verb(method: Callable[Concatenate[Reads, P], T]) -> Callable[Concatenate[Reads, P], T]:
    """Run a verb under the ledger's guard."""

    @wraps(method)
    def guarded(self: Reads, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.guard:
            if self.closed:
                raise StoreClosed("The ledger was closed.", remedy="Open it again.")
            return method(self, *args, **kwargs)

    return guarded


class UnitReads(ABC):
    """`guard` keeps verbs apart where the units are shared objects; other stores need none."""

    def __init__(self, guard: AbstractContextManager[object] | None = None) -> None:
        self.guard = guard or nullcontext()
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _read(self, unit_id: str) -> Unit | None: ...

    @abstractmethod
    def _units(self) -> Iterable[Unit]:
        """All units, oldest first."""

    @abstractmethod
    def _unit_of(self, task_id: str) -> str | None:
        """The unit that a task belongs to."""

    @abstractmethod
    def _progress(self, session_id: str) -> tuple[Progress, ...]:
        """Return what the attempts of a session have reported."""

    @abstractmethod
    def _remembered(self) -> Iterable[Remembered]: ...

    @abstractmethod
    def _endpoints(self) -> Iterable[Endpoint]: ...

    @abstractmethod
    def _trail(self) -> Iterable[tuple[Audit, list[Acted]]]:
        """Return the actions and their answers, newest first."""

    def newer_schema(self) -> int | None:
        return None  # units are no tables, and nothing migrates them

    @verb
    def audit(self, *, most: int = 100, target: str | None = None) -> list[Audit]:
        if target is not None:
            ids.check_id(target)
        found = (
            line
            for line, answer in self._trail()
            if target is None or any(acted.done and acted.id == target for acted in answer)
        )
        return [*islice(found, most)]

    @verb
    def endpoint(self, endpoint_id: str) -> Endpoint | None:
        wanted = ids.check_id(endpoint_id)
        return next((each for each in self._endpoints() if each.id == wanted), None)

    @verb
    def endpoints(self, *, tenant: str | None = None) -> list[Endpoint]:
        found = (each for each in self._endpoints() if tenant in {None, each.tenant})
        return sorted(found, key=lambda each: (each.created_at, each.id))

    @verb
    def get(self, task_id: str) -> Task | None:
        unit_id = self._unit_of(ids.check_id(task_id))
        unit = self._read(unit_id) if unit_id else None
        task = unit.tasks.get(task_id) if unit else None
        return task and self._with_progress(task)

    def _with_progress(self, task: Task) -> Task:
        if task.status is not Status.RUNNING or task.session_id is None:
            return task
        for reported in self._progress(task.session_id):
            task = reported.shown_in(task)
        return task

    @verb
    def get_many(self, task_ids: Sequence[str]) -> list[Task]:
        return [task for task_id in task_ids if (task := self.get(task_id)) is not None]

    @verb
    def get_job(self, job_id: str) -> Job | None:
        unit = self._read(ids.check_id(job_id))
        return unit.job if unit else None

    @verb
    def find(self, prefix: str) -> list[str]:
        ids.check_prefix(prefix)
        known = (name for unit in self._units() for name in ({unit.id} | unit.tasks.keys()))
        return sorted(name for name in known if name.startswith(prefix))[:2]

    @verb
    def list_tasks(self, query: Query) -> Page[Task]:
        found = [
            task._replace(payload_json=None, result_json=None)
            for unit in self._units_of(query)
            for task in unit.tasks.values()
            if _matches(task, query)
        ]
        return _page(found if query.job_id else found[::-1], query)

    def _units_of(self, query: Query) -> Iterable[Unit]:
        if query.job_id is None:
            return self._units()
        unit = self._read(query.job_id)
        return [] if unit is None else [unit]

    @verb
    def list_jobs(self, query: Query) -> Page[Job]:
        found = [
            job
            for unit in self._units()
            if (job := unit.job)
            and query.status in {None, job.status}
            and query.kind in {None, job.pipeline}
            and query.tenant in {None, job.tenant}
            and (query.tag is None or query.tag in job.tags)
        ]
        return _page(found[::-1], query)

    @verb
    def count(self, *, tenant: str | None = None) -> dict[tuple[str, Status], int]:
        return Counter(
            (task.kind, task.status)
            for unit in self._units()
            for task in unit.tasks.values()
            if tenant in {None, task.tenant}
        )

    @verb
    def open_job_count(self, tenant: str) -> int:
        check_name("tenant", tenant)
        jobs = (unit.job for unit in self._units() if unit.job is not None)
        return sum(job.tenant == tenant and not job.status.terminal for job in jobs)

    @verb
    def history(self, task_id: str) -> list[Attempt]:
        unit_id = self._unit_of(ids.check_id(task_id))
        unit = self._read(unit_id) if unit_id else None
        return [past for past in unit.attempts if past.task_id == task_id] if unit else []

    @verb
    def events(self, job_id: str, *, after: int = 0, most: int = 500) -> list[Event]:
        return self._events(ids.check_id(job_id), after, most)

    @verb
    def news(self, asked: Sequence[tuple[str, int]], *, most: int = 500) -> list[list[Event]]:
        checked = [(ids.check_id(job_id), after) for job_id, after in asked]
        return [self._events(job_id, after, most) for job_id, after in checked]

    def _events(self, job_id: str, after: int, most: int) -> list[Event]:
        unit = self._read(job_id)
        # They are numbered from 1 without gaps.
        return unit.events[after : after + most] if unit else []

    @verb
    def recall(self, tenant: str, keys: Sequence[str]) -> list[Remembered]:
        wanted = set(keys)
        return [kept for kept in self._remembered() if kept.tenant == tenant and kept.key in wanted]

    @verb
    def blobs_in_use(self, tenant: str, sha256s: Sequence[str]) -> set[str]:
        used = {kept.result_blob for kept in self._remembered() if kept.tenant == tenant}
        for unit in self._units():
            used.update(blob for task in unit.tasks.values() if task.tenant == tenant for blob in _blobs(task))
            if unit.job and unit.job.tenant == tenant:
                used.add(unit.job.document)
        return {sha256 for sha256 in sha256s if sha256 in used}

    def check(self) -> list[str]:
        return []

    def backup(self, target: Path) -> None:
        raise BadInput(
            f"This ledger cannot be copied to {target}.", remedy="Use the means of the store that keeps its data."
        )


def _matches(task: Task, query: Query) -> bool:
    return (
        query.status in {None, task.status}
        and query.kind in {None, task.kind}
        and query.tenant in {None, task.tenant}
        and query.job_id in {None, task.job_id}
        and query.role in {None, task.role}
        and (query.tag is None or query.tag in task.tags)
    )


def _page(found: list[T], query: Query) -> Page[T]:
    if query.after is not None and not _CURSOR.fullmatch(query.after):
        raise BadInput(f"{ids.shown(query.after)} is not a cursor.", remedy="Pass on the one that a page came with.")
    start = int(query.after or 0)
    end = start + query.size
    return Page(tuple(found[start:end]), str(end) if end < len(found) else None)


def _blobs(task: Task) -> Iterator[str]:
    yield from (blob for blob in (task.payload_blob, task.result_blob) if blob)
