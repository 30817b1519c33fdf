"""A ledger that keeps each unit whole: all verbs, over the few steps that differ by where the units are.

Memory and objects build on it. A step given to `_change` may run more than once, each time on what is stored then.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TypeVar

from forebay.errors import NotFound
from forebay.model.exchange import (
    Acted,
    Action,
    Hold,
    Progress,
    Release,
    Remembered,
    Renewal,
    Reply,
    Session,
    Settle,
    Settled,
    Submitted,
    Usage,
    Want,
    check_progress,
)
from forebay.model.job import Event, Job, NewJob
from forebay.model.task import NewTask, Status, Task
from forebay.rules import actions, pausing, settlement
from forebay.rules import unit as units
from forebay.rules.actions import audited
from forebay.rules.pausing import Pauses
from forebay.rules.unit import Unit
from forebay.stores.base import MAX_LANES, MAX_RESCUED
from forebay.stores.checks import (
    check_ages,
    check_batch,
    check_drain,
    check_exchange,
    check_older,
    check_repeat,
    check_targets,
)
from forebay.stores.unit_keys import UnitKeys
from forebay.stores.unit_reads import verb

T = TypeVar("T")
ACTIONS_KEPT = 20


class UnitLedger(UnitKeys):
    """The ledger's verbs; a store adds how a unit is read, changed and found."""

    group_tasks = 1

    @abstractmethod
    def _create(self, unit: Unit) -> bool:
        """Store a new unit unless its id is taken."""

    @abstractmethod
    def _change(self, unit_id: str, step: Callable[[Unit], T]) -> T | None:
        """Apply a step atomically; None when there is no such unit. A unit marked as deleted leaves its usage only."""

    @abstractmethod
    def _next_due(self, kind: str, now: float) -> float | None:
        """When the next delayed task of a kind becomes ready."""

    @abstractmethod
    def _enter(self, session_id: str, n: int, now: float) -> tuple[Session | None, bool]:
        """Renew the session and take note of `n`: the live session or None, and whether this is a repeat."""

    @abstractmethod
    def _session(self, session_id: str, step: Callable[[Session], Session]) -> Session | None:
        """Change a session atomically; the changed one, or None."""

    @abstractmethod
    def sessions(self) -> list[Session]: ...

    @abstractmethod
    def forget(self, tenant: str, document: str, action: Action) -> int: ...

    @verb
    def submit(self, batch: Sequence[NewTask | NewJob]) -> list[Submitted]:
        now = self._clock.now()
        answers = [self._submit(new, now) for new in check_batch(batch)]
        if any(answer.outcome == "created" for answer in answers):
            self._wake()
        return answers

    def _submit(self, new: NewTask | NewJob, now: float) -> Submitted:
        if self._create(units.create(new, now)):
            return Submitted(new.id, "created")
        stored = self._read(new.id)
        there = (stored.job or stored.tasks[new.id]) if stored else new
        alike = stored is None or (stored.job is None) == isinstance(new, NewTask)
        same = alike and there.payload_hash == new.payload_hash
        return Submitted(new.id, "existing" if same else "conflict")

    @verb
    def renew(self, session_id: str, holds: Sequence[Hold] = (), progress: Sequence[Progress] = ()) -> Renewal:
        now = self._clock.now()
        reported = check_progress(progress)
        session = self._session(session_id, lambda old: renewed(old, now, reported))
        if session is None or session.ended_at is not None:
            return Renewal(alive=False)
        for hold in holds:
            self._change(hold.job_id or hold.task_id, partial(_extend, hold=hold, now=now))
        asked = [task.id for task in self.mine(session_id) if task.cancel_requested_at is not None]
        return Renewal(alive=True, cancel_requested=tuple(asked), drain=session.drain_at is not None)

    @verb
    def drain(self, session_id: str, action: Action) -> Acted:
        check_drain(session_id, action)
        if (recorded := self._recorded(action)) is not None:
            check_repeat(recorded[0], "drain", [session_id])
            return recorded[1][0]
        now = self._clock.now()
        answer = actions.drained(session_id, self._session(session_id, lambda old: actions.draining(old, now)))
        self._record(audited(action, "drain", [session_id], now), [answer])
        self._wake()
        return answer

    @verb
    def close_session(self, session_id: str) -> None:
        now = self._clock.now()
        session = self._session(session_id, lambda old: replace(old, ended_at=old.ended_at or now))
        if session is None:
            return
        for task in self.mine(session_id):
            self._release(Release(task.id, task.claim_count, task.job_id, started=True), session.worker, now)
        self._wake()

    @verb
    def exchange(
        self,
        session_id: str,
        n: int,
        *,
        settles: Sequence[Settle] = (),
        releases: Sequence[Release] = (),
        wants: Sequence[Want] = (),
    ) -> Reply:
        settles, releases, wants = check_exchange(session_id, n, settles, releases, wants)
        now = self._clock.now()
        session, repeat = self._enter(session_id, n, now)
        worker = session.worker if session else self._worker(session_id)
        settled = tuple(self._settle(settle, worker, now) for settle in settles)
        for release in releases:
            self._release(release, worker, now)
        if session is None:
            return Reply(settled=settled, alive=False, now=now)
        pauses = self._in_force(now)
        if repeat:
            claims = [task for task in self.mine(session_id) if task.exchange_n == n]
        else:
            claims = [task for want in wants for task in self._claim(want, session_id, n, now, pauses)]
        ready = {want.kind: sorted(self._ready_lanes(want.kind, now)) for want in wants}
        due = [self._next_due(kind, now) for kind in ready]
        left = pausing.left(ready, due, pauses, now=now, most=MAX_LANES)
        return Reply(settled=settled, claims=tuple(claims), now=now, **left._asdict())

    def _worker(self, session_id: str | None) -> str:
        session = self._session(session_id, lambda old: old) if session_id else None
        return session.worker if session else ""

    def _settle(self, settle: Settle, worker: str, now: float) -> Settled:
        def step(unit: Unit) -> bool:
            task = unit.tasks.get(settle.task_id)
            if task is None:
                return False
            if not _holds(task, settle.token):
                return any(
                    settlement.repeats(settle, past.outcome)
                    for past in unit.attempts
                    if past.settled and past.token == settle.token and past.task_id == task.id
                )
            units.end(unit, task, settlement.settled(task, settle, now), worker=worker, now=now, settle=settle)
            return True

        done = self._change(settle.job_id or settle.task_id, step)
        if done:
            self._wake()
        return Settled(settle.task_id, settle.token, fenced=not done)

    def _release(self, release: Release, worker: str, now: float) -> None:
        def step(unit: Unit) -> None:
            task = unit.tasks.get(release.task_id)
            if task is not None and _holds(task, release.token):
                ending = settlement.released(task, now, started=release.started)
                units.end(unit, task, ending, worker=worker, now=now)

        self._change(release.job_id or release.task_id, step)

    def _claim(self, want: Want, session_id: str, n: int, now: float, pauses: Pauses) -> Iterator[Task]:
        count = 0
        candidates = self._candidates(want.kind, want.lane, now, pauses)
        while count < want.count and (candidate := next(candidates, None)):

            def step(unit: Unit, candidate: Task = candidate) -> Task | None:
                task = unit.tasks[candidate.id]
                if task.status is not Status.PENDING or task.available_at > now:
                    return None
                return units.claim(unit, task, session_id=session_id, n=n, grace_s=want.grace_s, now=now)

            claimed = self._change(candidate.unit_id, step)
            if claimed is not None:
                count += 1
                yield claimed

    def _ready_lanes(self, kind: str, now: float) -> Iterable[str]:
        return {task.lane for task in self._candidates(kind, None, now)}

    @verb
    def rescue(self, *, most: int = MAX_RESCUED) -> list[str]:
        now = self._clock.now()
        for session in self.sessions():
            if session.expires_at <= now:
                self._session(session.id, lambda old: _expired(old, now))
        alive = {session.id for session in self.sessions()}
        rescued: list[str] = []
        for task in list(self._held()):
            if len(rescued) == most:
                break
            gone = task.session_id not in alive
            if not gone and (task.attempt_deadline_at or 0) > now:
                continue
            why = "its session ended" if gone else "its attempt was overdue"
            if self._lose(task, why, self._worker(task.session_id), now):
                rescued.append(task.id)
        if rescued:
            self._wake()
        return rescued

    def _lose(self, held: Task, why: str, worker: str, now: float) -> bool:
        def step(unit: Unit) -> bool:
            task = unit.tasks[held.id]
            # Extended since it was looked at: no longer overdue.
            if not _holds(task, held.claim_count) or task.attempt_deadline_at != held.attempt_deadline_at:
                return False
            units.end(unit, task, settlement.lost(task, now, why=why), worker=worker, now=now)
            return True

        return bool(self._change(held.unit_id, step))

    @verb
    def mine(self, session_id: str) -> list[Task]:
        return [task for task in self._held() if task.session_id == session_id]

    @verb
    def cancel(self, ids: Sequence[str], action: Action) -> list[Acted]:
        return self._act("cancel", ids, action, actions.cancel)

    @verb
    def retry(self, ids: Sequence[str], action: Action, *, force: bool = False) -> list[Acted]:
        def step(unit: Unit, target: str, now: float) -> Acted:
            return actions.retry(unit, target, now, force=force)

        return self._act("force" if force else "retry", ids, action, step)

    @verb
    def lose_result(self, task_id: str, result_blob: str | None, action: Action, *, told: Event | None = None) -> Acted:
        def step(unit: Unit, target: str, now: float) -> Acted:
            return actions.lose_result(unit, target, result_blob, now, told)

        return self._act("lose_result", [task_id], action, step)[0]

    def _act(
        self, verb: str, targets: Sequence[str], action: Action, step: Callable[[Unit, str, float], Acted]
    ) -> list[Acted]:
        targets = check_targets(targets, action)
        if (recorded := self._recorded(action)) is not None:
            check_repeat(recorded[0], verb, targets)
            return recorded[1]
        now = self._clock.now()

        def once(unit: Unit, target: str) -> Acted:
            # An action that broke off half way is repeated whole: what it did already, it does not do again.
            key = f"{action.id} {target}"
            if key not in unit.acted:
                unit.acted = dict([*unit.acted.items(), (key, step(unit, target, now))][-ACTIONS_KEPT:])
            return unit.acted[key]

        answer = []
        for target in targets:
            unit_id = self._unit_of(target)
            done = self._change(unit_id, partial(once, target=target)) if unit_id else None
            answer.append(done or Acted(target, NotFound.code, f"There is no task or job {target}."))
        self._record(audited(action, verb, targets, now), answer)
        self._wake()
        return answer

    @verb
    def delete(self, ids: Sequence[str], action: Action) -> list[Acted]:
        def step(unit: Unit, target: str, now: float) -> Acted:
            answer = actions.delete(unit, target, now)
            if unit.deleted and unit.job and unit.job.document and not self._works_on_the_same(unit.job):
                self._drop_remembered(unit.job.tenant, unit.job.document)
            return answer

        return self._act("delete", ids, action, step)

    def _works_on_the_same(self, job: Job) -> bool:
        """Whether another open job has this one's document: what it has paid for is remembered there, too."""
        return any(
            (other.tenant, other.document) == (job.tenant, job.document)
            for unit in self._units()
            if (other := unit.job) is not None and other.id != job.id and not other.status.terminal
        )

    @abstractmethod
    def _drop_remembered(self, tenant: str, document: str) -> int: ...

    @abstractmethod
    def _drop_result(self, kept: Remembered) -> None: ...

    @verb
    def forget_older(self, older_than_s: float, action: Action, *, most: int = 1000) -> int:
        check_older(older_than_s, most)
        now = self._clock.now()
        old = list(islice((kept for kept in self._remembered() if kept.created_at < now - older_than_s), most))
        for kept in old:
            self._drop_result(kept)
        if old:
            self._record(audited(action, "forget", list(dict.fromkeys(kept.document for kept in old)), now), [])
        return len(old)

    @verb
    def prune(self, older_than_s: Mapping[Status, float], action: Action, *, most: int = 1000) -> int:
        check_ages(older_than_s, most)
        now = self._clock.now()

        def step(unit: Unit) -> bool:
            unit.deleted = _is_old(unit, older_than_s, now)
            return unit.deleted

        old = list(islice((unit.id for unit in self._units() if _is_old(unit, older_than_s, now)), most))
        gone = [unit_id for unit_id in old if self._change(unit_id, step)]
        if gone:
            self._record(audited(action, "prune", gone, now), [])
        return len(gone)


def summed(rows: Iterable[Usage]) -> list[Usage]:
    total: Counter[tuple[str, str]] = Counter()
    for row in rows:
        total[row.meter, row.unit] += row.amount  # type: ignore[assignment]  # a Counter adds floats as well
    return [Usage(meter, unit, amount) for (meter, unit), amount in sorted(total.items())]


def _holds(task: Task, token: int) -> bool:
    return task.status is Status.RUNNING and task.claim_count == token


def renewed(session: Session, now: float, progress: tuple[Progress, ...] | None = None) -> Session:
    """Never shorter: what is written later may have begun before."""
    if session.ended_at is not None:
        return session
    until = max(session.expires_at, now + session.lease_s)
    return replace(session, expires_at=until, progress=session.progress if progress is None else progress)


def _expired(session: Session, now: float) -> Session:
    return replace(session, ended_at=now) if session.ended_at is None and session.expires_at <= now else session


def _extend(unit: Unit, hold: Hold, now: float) -> None:
    task = unit.tasks.get(hold.task_id)
    if task is not None and _holds(task, hold.token):
        unit.put(task._replace(attempt_deadline_at=now + hold.hold_s))


def _is_old(unit: Unit, older_than_s: Mapping[Status, float], now: float) -> bool:
    head = unit.job or unit.tasks[unit.id]
    keep_s = older_than_s.get(head.status)
    if keep_s is None or head.finished_at is None or head.finished_at >= now - keep_s:
        return False
    return all(task.status.terminal for task in unit.tasks.values())
