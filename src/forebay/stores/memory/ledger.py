"""Keeps a ledger in the memory of one process, for tests and for runs that need not outlive it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from threading import RLock
from typing import TypeVar

from forebay.clock import Clock, SystemClock
from forebay.model.callback import Endpoint
from forebay.model.exchange import Acted, Action, Audit, Progress, Remembered, Session, Usage
from forebay.model.job import Job
from forebay.model.key import ApiKey
from forebay.model.lane import Pause
from forebay.model.task import Status, Task
from forebay.rules.actions import audited
from forebay.rules.unit import Unit
from forebay.stores.base import MAX_PROMOTED
from forebay.stores.checks import check_repeat
from forebay.stores.job_log import log_events
from forebay.stores.memory.index import Index
from forebay.stores.unit_keys import Taken
from forebay.stores.units import UnitLedger, renewed, summed

T = TypeVar("T")


class MemoryLedger(UnitLedger):
    """All verbs run under one lock."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock or SystemClock(), RLock())
        self._stored: dict[str, Unit] = {}
        self._home: dict[str, str] = {}
        self._buried: dict[str, int] = {}  # the last tokens of deleted tasks, which may come back
        self._running: dict[str, None] = {}
        self._index = Index(self._task)
        self._sessions: dict[str, Session] = {}
        self._reuse: dict[tuple[str, str], Remembered] = {}
        self._audit: dict[str, Audit] = {}
        self._answers: dict[str, list[Acted]] = {}
        self._left_usage: list[tuple[str, Usage, float]] = []
        self._paused: dict[str, Pause] = {}
        self._api_keys: dict[str, ApiKey] = {}
        self._requests: dict[tuple[str, str], Taken] = {}
        self._places: dict[str, Endpoint] = {}

    def _task(self, task_id: str) -> Task | None:
        home = self._home.get(task_id)
        return self._stored[home].tasks[task_id] if home else None

    def _create(self, unit: Unit) -> bool:
        if unit.id in self._stored:
            return False
        self._stored[unit.id] = unit
        self._refresh(unit)
        return True

    def _read(self, unit_id: str) -> Unit | None:
        return self._stored.get(unit_id)

    def _change(self, unit_id: str, step: Callable[[Unit], T]) -> T | None:
        unit = self._stored.get(unit_id)
        if unit is None:
            return None
        before = unit.job, (len(unit.attempts), len(unit.events), len(unit.usage)), dict(unit.acted)
        try:
            answer = step(unit)
        except BaseException:
            _undo(unit, *before)
            raise
        if unit.deleted:
            self._left_usage.extend((unit.tasks[task_id].tenant, used, at) for task_id, _, used, at in unit.usage)
            for task_id, task in unit.tasks.items():
                if task.claim_count:
                    self._buried[task_id] = task.claim_count
                del self._home[task_id]
                self._index.forget(task_id)
            del self._stored[unit_id]
        else:
            self._refresh(unit)
        log_events((unit_id, event) for event in unit.events[before[1][1] :])
        return answer

    def _refresh(self, unit: Unit) -> None:
        """Bring the indexes up to date with what a step touched."""
        now = self._clock.now()
        newly_ready: list[Task] = []
        for task_id, before in unit.touched.items():
            task = unit.tasks[task_id]
            if before is None and (floor := self._buried.pop(task_id, 0)):
                task = unit.tasks[task_id] = task._replace(claim_count=floor)
            self._home[task_id] = unit.id
            if task.status is Status.RUNNING:
                self._running[task_id] = None
                continue
            self._running.pop(task_id, None)
            if task.status is not Status.PENDING:
                continue
            if task.tag is not None:
                self._index.add_ready(task)
            elif task.available_at <= now:
                newly_ready.append(task)
            else:
                self._index.add_later(task)
        unit.touched.clear()
        self._make_ready(newly_ready)

    def _make_ready(self, tasks: Sequence[Task]) -> None:
        for task, tag in zip(tasks, self._index.tags(tasks), strict=True):
            tagged = task._replace(tag=tag, wait_reason=None)
            self._stored[self._home[task.id]].tasks[task.id] = tagged
            self._index.add_ready(tagged)

    def _units(self) -> Iterable[Unit]:
        return list(self._stored.values())

    def _unit_of(self, task_id: str) -> str | None:
        return task_id if task_id in self._stored else self._home.get(task_id)

    def _candidates(self, kind: str, lane: str | None, now: float, paused: Container[str] = ()) -> Iterator[Task]:
        self._make_ready(self._index.due(kind, now, MAX_PROMOTED))
        return self._index.ready(kind, lane, paused)

    def _ready_lanes(self, kind: str, now: float) -> Iterable[str]:
        self._make_ready(self._index.due(kind, now, MAX_PROMOTED))
        return self._index.lanes(kind)

    def _next_due(self, kind: str, now: float) -> float | None:  # noqa: ARG002 - kept in order by time
        return self._index.next_due(kind)

    def _held(self) -> Iterable[Task]:
        return [task for task_id in self._running if (task := self._task(task_id))]

    def open_session(self, session: Session) -> None:
        now = self._clock.now()
        opened = replace(session, opened_at=now, expires_at=now + session.lease_s)
        with self.guard:
            known = self._sessions.get(session.id)
            self._sessions[session.id] = opened if known is None else replace(known, kinds=session.kinds)

    def sessions(self) -> list[Session]:
        with self.guard:
            return [replace(session, progress=()) for session in self._sessions.values() if session.ended_at is None]

    def _progress(self, session_id: str) -> tuple[Progress, ...]:
        session = self._sessions.get(session_id)
        return session.progress if session else ()

    def _enter(self, session_id: str, n: int, now: float) -> tuple[Session | None, bool]:
        session = self._sessions.get(session_id)
        if session is None or session.ended_at is not None:
            return None, False
        entered = replace(renewed(session, now), exchange_n=max(n, session.exchange_n))
        self._sessions[session_id] = entered
        return entered, n <= session.exchange_n

    def _session(self, session_id: str, step: Callable[[Session], Session]) -> Session | None:
        session = self._sessions.get(session_id)
        if session is None:
            return None
        self._sessions[session_id] = step(session)
        return self._sessions[session_id]

    def _pauses(self) -> Iterable[Pause]:
        return self._paused.values()

    def _change_pauses(self, action: Action, step: Callable[[Iterable[Pause]], dict[str, Pause]]) -> None:  # noqa: ARG002 - recorded under the same lock
        self._paused = step(self._pauses())

    def _recorded(self, action: Action) -> tuple[Audit, list[Acted]] | None:
        return (self._audit[action.id], self._answers[action.id]) if action.id in self._audit else None

    def _record(self, audit: Audit, answer: list[Acted]) -> None:
        self._audit[audit.id] = audit
        self._answers[audit.id] = answer

    def _put_key(self, key: ApiKey) -> None:
        self._api_keys.setdefault(key.id, key)

    def _change_key(self, key_id: str, step: Callable[[ApiKey], ApiKey]) -> ApiKey | None:
        if key_id in self._api_keys:
            self._api_keys[key_id] = step(self._api_keys[key_id])
        return self._api_keys.get(key_id)

    def _all_keys(self) -> list[ApiKey]:
        return [*self._api_keys.values()]

    def _change_request(self, tenant: str, key: str, step: Callable[[Taken | None], Taken | None]) -> Taken | None:
        taken = step(self._requests.pop((tenant, key), None))
        if taken is not None:
            self._requests[tenant, key] = taken
        return taken

    def _trail(self) -> Iterable[tuple[Audit, list[Acted]]]:
        return [(line, self._answers[line.id]) for line in reversed(self._audit.values())]

    def used(self, *, tenant: str | None = None, since: float = 0.0) -> list[Usage]:
        with self.guard:
            rows = list(self._left_usage)
            for unit in self._stored.values():
                rows.extend((unit.tasks[task_id].tenant, used, at) for task_id, _, used, at in unit.usage)
        return summed(used for owner, used, at in rows if tenant in {None, owner} and at >= since)

    def remember(self, results: Sequence[Remembered]) -> None:
        now = self._clock.now()
        with self.guard:
            for result in results:
                self._reuse.setdefault((result.tenant, result.key), replace(result, created_at=now))

    def _remembered(self) -> Iterable[Remembered]:
        return list(self._reuse.values())

    def _put_endpoint(self, endpoint: Endpoint) -> bool:
        known = self._places.get(endpoint.id)
        fits = known is None or known.version == endpoint.version - 1
        if fits:
            self._places[endpoint.id] = endpoint
        return fits

    def _endpoints(self) -> Iterable[Endpoint]:
        return list(self._places.values())

    def forget(self, tenant: str, document: str, action: Action) -> int:
        with self.guard:
            if recorded := self._recorded(action):
                check_repeat(recorded[0], "forget", [document])
            count = self._drop_remembered(tenant, document)
            self._record(audited(action, "forget", [document], self._clock.now()), [])
            return count

    def _drop_remembered(self, tenant: str, document: str) -> int:
        gone = [key for key, kept in self._reuse.items() if (kept.tenant, kept.document) == (tenant, document)]
        for key in gone:
            del self._reuse[key]
        return len(gone)

    def _drop_result(self, kept: Remembered) -> None:
        self._reuse.pop((kept.tenant, kept.key), None)

    def close(self) -> None:
        """The data stays with the object, and nobody can reach it any more."""
        self.closed = True


def _undo(unit: Unit, job: Job | None, lengths: tuple[int, int, int], acted: dict[str, Acted]) -> None:
    """Put a unit back to what it was before a step that failed."""
    for task_id, before in unit.touched.items():
        if before is None:
            del unit.tasks[task_id]
        else:
            unit.tasks[task_id] = before
    unit.touched.clear()
    unit.job, unit.acted, unit.deleted = job, acted, False
    attempts, events, usage = lengths
    del unit.attempts[attempts:], unit.events[events:], unit.usage[usage:]
