"""Keeps a ledger in an object store: one object per unit, changed by compare-and-swap alone.

It shows that the contract asks nothing of a store but atomic change of one object. It finds work by reading
every unit, so it is not a ledger for many tasks: an index by time and lane is what is missing for that.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import MemoryStore, S3Store

from forebay.clock import Clock, SystemClock
from forebay.errors import StoreBusy
from forebay.model.callback import Endpoint
from forebay.model.exchange import Acted, Action, Audit, Progress, Remembered, Session, Usage
from forebay.model.job import Event
from forebay.model.key import ApiKey
from forebay.model.lane import Pause
from forebay.model.task import Status, Task
from forebay.rules import fairness
from forebay.rules.actions import audited
from forebay.rules.fairness import Line, Place
from forebay.rules.unit import Unit
from forebay.stores.checks import check_repeat
from forebay.stores.job_log import log_events
from forebay.stores.objects import codec
from forebay.stores.unit_keys import Taken
from forebay.stores.units import ACTIONS_KEPT, UnitLedger, renewed, summed

T = TypeVar("T")
_TRIES = 200
_PAUSES = "pauses"


class ObjectsLedger(UnitLedger):
    """Any number of processes may share the prefix; none of them needs another to be up."""

    def __init__(self, store: MemoryStore | S3Store, *, clock: Clock | None = None) -> None:
        super().__init__(clock or SystemClock())
        self._store = store

    def _get(self, key: str) -> tuple[dict[str, Any], Any] | None:
        try:
            found = obstore.get(self._store, key)
        except (FileNotFoundError, ValueError):  # a key that cannot be a path is that of no object
            return None
        version = {name: found.meta[name] for name in ("e_tag", "version") if found.meta[name] is not None}
        return json.loads(bytes(found.bytes())), version

    def _put_new(self, key: str, data: bytes) -> bool:
        try:
            obstore.put(self._store, key, data, mode="create")
        except AlreadyExistsError:
            return False
        return True

    def _swap(self, key: str, step: Callable[[dict[str, Any]], tuple[bytes, T]]) -> T | None:
        """Read, apply, write back if nobody wrote in between, else begin again; None when there is nothing."""
        for _ in range(_TRIES):
            found = self._get(key)
            if found is None:
                return None
            data, version = found
            written, answer = step(data)
            if written == codec.pack(data):
                return answer
            try:
                obstore.put(self._store, key, written, mode=version)
            except (PreconditionError, FileNotFoundError):
                continue
            return answer
        raise StoreBusy(f"{key} was changed by others {_TRIES} times in a row.", remedy="Try again.")

    def _keys(self, prefix: str) -> list[str]:
        return [meta["path"] for page in obstore.list(self._store, prefix) for meta in page]

    def _all(self, prefix: str) -> list[dict[str, Any]]:
        return [found[0] for key in self._keys(prefix) if (found := self._get(key))]

    def _create(self, unit: Unit) -> bool:
        def step(data: dict[str, Any]) -> tuple[bytes, bool]:
            if not data["deleted"]:
                return codec.pack(data), False
            _go_on(unit, data["claims"])
            fresh = json.loads(codec.unit_bytes(unit, time.time_ns()))
            kept = {name: data[name] for name in ("usage", "tenants", "claims")}
            return codec.pack({**fresh, **kept}), True

        key = f"units/{unit.id}"
        return self._put_new(key, codec.unit_bytes(unit, time.time_ns())) or bool(self._swap(key, step))

    def _read(self, unit_id: str) -> Unit | None:
        found = self._get(f"units/{unit_id}")
        return codec.unit_of(found[0]) if found and not found[0]["deleted"] else None

    def _change(self, unit_id: str, step: Callable[[Unit], T]) -> T | None:
        noted: list[Event] = []

        def swap(data: dict[str, Any]) -> tuple[bytes, T | None]:
            if data["deleted"]:
                return codec.pack(data), None
            unit = codec.unit_of(data)
            answer = step(unit)
            noted[:] = unit.events[len(data["events"]) :]
            _go_on(unit, data["claims"])
            changed = json.loads(codec.unit_bytes(unit, data["order"]))
            kept = {name: {**data[name], **changed[name]} for name in ("tenants", "claims")}
            return codec.pack({**changed, **kept}), answer

        answer = self._swap(f"units/{unit_id}", swap)
        log_events((unit_id, event) for event in noted)
        return answer

    def _units(self) -> Iterable[Unit]:
        stored = sorted(self._all("units"), key=lambda data: data["order"])
        return [codec.unit_of(data) for data in stored if not data["deleted"]]

    def _unit_of(self, task_id: str) -> str | None:
        return next((unit.id for unit in self._units() if task_id == unit.id or task_id in unit.tasks), None)

    def _candidates(self, kind: str, lane: str | None, now: float, paused: Container[str] = ()) -> Iterator[Task]:
        waiting = [
            task
            for unit in self._units()
            for task in unit.tasks.values()
            if task.status is Status.PENDING and task.kind == kind and task.available_at <= now
        ]
        placed = [task for task in waiting if task.tag is not None]
        placed += self._promote(sorted((task for task in waiting if task.tag is None), key=_since), placed)
        chosen = [task for task in placed if lane in {None, task.lane} and task.lane not in paused]
        return iter(sorted(chosen, key=lambda task: (-task.priority, task.tag or 0, task.available_at)))

    def _promote(self, due: list[Task], placed: list[Task]) -> list[Task]:
        """Give those whose time has come their place in line, and keep it with them."""
        heads: dict[Line, int] = {}
        tails: dict[tuple[Line, str], int] = {}
        flows: dict[tuple[Line, str], set[str]] = defaultdict(set)
        for task in placed:
            line, tag = _line(task), task.tag or 0
            heads[line] = min(tag, heads.get(line, tag))
            if task.flow is not None:
                tails[line, task.flow] = max(tag, tails.get((line, task.flow), 0))
            if (tenant := _place(task).tenant) is not None and task.flow is not None:
                flows[line, tenant].add(task.flow)
        crowds = {key: len(names) for key, names in flows.items()}
        given = fairness.tags(map(_place, due), heads, tails, crowds)
        ready = [task._replace(tag=tag, wait_reason=None) for task, tag in zip(due, given, strict=True)]
        by_unit: dict[str, dict[str, Task]] = defaultdict(dict)
        for task in ready:
            by_unit[task.unit_id][task.id] = task
        for unit_id, tasks in by_unit.items():
            self._change(unit_id, partial(_put_in_line, tasks=tasks))
        return ready

    def _next_due(self, kind: str, now: float) -> float | None:
        later = [
            task.available_at
            for unit in self._units()
            for task in unit.tasks.values()
            if task.status is Status.PENDING and task.kind == kind and task.available_at > now
        ]
        return min(later, default=None)

    def _held(self) -> Iterable[Task]:
        return [task for unit in self._units() for task in unit.tasks.values() if task.status is Status.RUNNING]

    def open_session(self, session: Session) -> None:
        now = self._clock.now()
        opened = replace(session, opened_at=now, expires_at=now + session.lease_s)
        if not self._put_new(f"sessions/{session.id}", codec.pack(asdict(opened))):
            self._session(session.id, lambda known: replace(known, kinds=session.kinds))

    def sessions(self) -> list[Session]:
        known = map(codec.session_of, self._all("sessions"))
        return [replace(session, progress=()) for session in known if session.ended_at is None]

    def _progress(self, session_id: str) -> tuple[Progress, ...]:
        found = self._get(f"sessions/{session_id}")
        return codec.session_of(found[0]).progress if found else ()

    def _enter(self, session_id: str, n: int, now: float) -> tuple[Session | None, bool]:
        def step(data: dict[str, Any]) -> tuple[bytes, tuple[Session | None, bool]]:
            session = codec.session_of(data)
            if session.ended_at is not None:
                return codec.pack(data), (None, False)
            entered = replace(renewed(session, now), exchange_n=max(n, session.exchange_n))
            return codec.pack(asdict(entered)), (entered, n <= session.exchange_n)

        return self._swap(f"sessions/{session_id}", step) or (None, False)

    def _session(self, session_id: str, step: Callable[[Session], Session]) -> Session | None:
        def swap(data: dict[str, Any]) -> tuple[bytes, Session]:
            changed = step(codec.session_of(data))
            return codec.pack(asdict(changed)), changed

        return self._swap(f"sessions/{session_id}", swap)

    def _pauses(self) -> Iterable[Pause]:
        found = self._get(_PAUSES)
        return [Pause(**fields) for fields in found[0]["lanes"]] if found else []

    def _change_pauses(self, action: Action, step: Callable[[Iterable[Pause]], dict[str, Pause]]) -> None:
        def swap(data: dict[str, Any]) -> tuple[bytes, None]:
            # Kept with the pauses: one that broke off before it was recorded is repeated, and must not count twice.
            if action.id in data["acted"]:
                return codec.pack(data), None
            changed = step([Pause(**fields) for fields in data["lanes"]])
            acted = [*data["acted"], action.id][-ACTIONS_KEPT:]
            return codec.pack({"lanes": [asdict(pause) for pause in changed.values()], "acted": acted}), None

        self._put_new(_PAUSES, codec.pack({"lanes": [], "acted": []}))
        self._swap(_PAUSES, swap)

    def _recorded(self, action: Action) -> tuple[Audit, list[Acted]] | None:
        found = self._get(f"audit/{action.id}")
        return None if found is None else _recorded(found[0])

    def _record(self, audit: Audit, answer: list[Acted]) -> None:
        line = {"order": time.time_ns(), "answer": [asdict(one) for one in answer], "line": asdict(audit)}
        self._put_new(f"audit/{audit.id}", codec.pack(line))

    def _put_key(self, key: ApiKey) -> None:
        self._put_new(f"keys/{key.id}", codec.pack(asdict(key)))

    def _change_key(self, key_id: str, step: Callable[[ApiKey], ApiKey]) -> ApiKey | None:
        def swap(data: dict[str, Any]) -> tuple[bytes, ApiKey]:
            changed = step(codec.key_of(data))
            return codec.pack(asdict(changed)), changed

        return self._swap(f"keys/{key_id}", swap)

    def _all_keys(self) -> list[ApiKey]:
        return [*map(codec.key_of, self._all("keys"))]

    def _change_request(self, tenant: str, key: str, step: Callable[[Taken | None], Taken | None]) -> Taken | None:
        def swap(data: dict[str, Any]) -> tuple[bytes, Taken | None]:
            taken = step(data["taken"] and (data["taken"][0], data["taken"][1]))
            return codec.pack({"taken": taken}), taken

        # By its hash: a key may hold what no path may.
        path = f"requests/{tenant}/{hashlib.sha256(key.encode()).hexdigest()}"
        self._put_new(path, codec.pack({"taken": None}))
        return self._swap(path, swap)

    def _trail(self) -> Iterable[tuple[Audit, list[Acted]]]:
        return map(_recorded, sorted(self._all("audit"), key=lambda data: -data["order"]))

    def used(self, *, tenant: str | None = None, since: float = 0.0) -> list[Usage]:
        found: list[Usage] = []
        for data in self._all("units"):
            tenants = data["tenants"] | {task["id"]: task["tenant"] for task in data["tasks"]}
            found.extend(
                Usage(**used)
                for task_id, _, used, at in data["usage"]
                if tenant in {None, tenants[task_id]} and at >= since
            )
        return summed(found)

    def remember(self, results: Sequence[Remembered]) -> None:
        now = self._clock.now()
        for result in results:
            kept = replace(result, created_at=now)
            self._put_new(f"remembered/{result.tenant}/{result.key}", codec.pack(asdict(kept)))

    def _remembered(self) -> Iterable[Remembered]:
        return [Remembered(**data) for data in self._all("remembered")]

    def _put_endpoint(self, endpoint: Endpoint) -> bool:
        def step(data: dict[str, Any]) -> tuple[bytes, bool]:
            fits = data["version"] == endpoint.version - 1
            return codec.pack(asdict(endpoint) if fits else data), fits

        key = f"endpoints/{endpoint.id}"
        return self._put_new(key, codec.pack(asdict(endpoint))) or bool(self._swap(key, step))

    def _endpoints(self) -> Iterable[Endpoint]:
        return [Endpoint(**data) for data in self._all("endpoints")]

    def forget(self, tenant: str, document: str, action: Action) -> int:
        if recorded := self._recorded(action):
            check_repeat(recorded[0], "forget", [document])
        count = self._drop_remembered(tenant, document)
        self._record(audited(action, "forget", [document], self._clock.now()), [])
        return count

    def _drop_remembered(self, tenant: str, document: str) -> int:
        kept = [one for one in self._remembered() if (one.tenant, one.document) == (tenant, document)]
        for one in kept:
            self._drop_result(one)
        return len(kept)

    def _drop_result(self, kept: Remembered) -> None:
        obstore.delete(self._store, f"remembered/{kept.tenant}/{kept.key}")

    def close(self) -> None:
        """Nothing is held between calls."""
        self.closed = True


def _put_in_line(unit: Unit, tasks: dict[str, Task]) -> None:
    for task in tasks.values():
        stored = unit.tasks.get(task.id)
        if (
            stored
            and stored.status is Status.PENDING
            and stored.tag is None
            and stored.available_at == task.available_at
        ):
            unit.put(task)


def _go_on(unit: Unit, claims: dict[str, int]) -> None:
    """Tasks that come back under their key after a deletion go on from their last token."""
    for task in list(unit.tasks.values()):
        if task.claim_count < claims.get(task.id, 0):
            unit.put(task._replace(claim_count=claims[task.id]))


def _recorded(data: dict[str, Any]) -> tuple[Audit, list[Acted]]:
    line = data["line"]
    return Audit(**{**line, "targets": tuple(line["targets"])}), [Acted(**each) for each in data["answer"]]


def _line(task: Task) -> Line:
    return Line(task.kind, task.lane, task.priority)


def _place(task: Task) -> Place:
    return fairness.place_of(_line(task), task.flow, task.tenant)


def _since(task: Task) -> float:
    return task.available_at
