"""One worker: claims what it has handlers for, runs it within its room, settles, and drains when told to."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import TypeVar

from forebay import ids
from forebay.engine import outcomes, upkeep
from forebay.engine.aside import aside
from forebay.engine.asking import ask, passes
from forebay.engine.attempt import Attempt, Why
from forebay.engine.children import Bounds
from forebay.engine.chores import Chore, keep
from forebay.engine.deciding import decided
from forebay.engine.exchanger import Ended, Exchanger
from forebay.engine.gate import Gate
from forebay.engine.heart import Heart
from forebay.engine.late import NONE_LEFT_OUT, LeftOut, take_up
from forebay.engine.lease import Lease
from forebay.engine.pace import Pace
from forebay.engine.pool import Pool
from forebay.engine.quarantine import Quarantine
from forebay.engine.quotas import Quotas
from forebay.engine.registry import Registry
from forebay.engine.room import Limits, Room
from forebay.engine.starter import Starter
from forebay.engine.submission import Submissions
from forebay.engine.tell import tell
from forebay.errors import BadInput, SchemaTooNew, StoreError
from forebay.limits.limiter import Limiter
from forebay.model.exchange import Hold, Progress, Release, Renewal, Reply, Session, Want
from forebay.model.names import lane_of
from forebay.model.outcome import Outcome
from forebay.model.task import Status, Task
from forebay.observe import emit
from forebay.stores.base import Ledger

_IN_HAND_S = 1.0
_NO_CHILD_S = 60.0
_HURRY = 2  # drains: somebody waits for us to end
T = TypeVar("T")


class Worker:
    """`run` returns when `drain` was called and everything is settled or handed back."""

    def __init__(
        self,
        ledger: Ledger,
        registry: Registry,
        submissions: Submissions,
        *,
        name: str,
        limits: Limits,
        limiter: Callable[[], Limiter],
        tell_limits: Callable[[], None],
        target: str | None = None,
        bounds: Bounds | None = None,
        retention_s: Mapping[Status, float] | None = None,
        chores: Sequence[Chore] = (),
        left_out: LeftOut = NONE_LEFT_OUT,
    ) -> None:
        registry.check_runnable(target)
        self._ledger = ledger
        self._registry = registry
        self._name = name
        self._limits = limits
        self._retention_s = dict(retention_s or {})
        self._chores = tuple(chores)
        self._left_out = left_out
        self._pool: Pool | None = None
        if target is not None and any(kind.blocking for kind in registry):
            self._pool = Pool(target, limits.processes, bounds or Bounds(), refused=self._refused)
        self._attempts: dict[Attempt, None] = {}
        self._room = Room(registry, limits)
        self._tell_limits = tell_limits
        self._quotas = Quotas(registry, limiter, limits.concurrency, self._quota_changed)
        self._gate = Gate(limits.concurrency)
        self._pace = Pace(self._room, self._gate, self._quotas, limits.batch)
        self._lease = Lease(limits.lease_s)
        self._starter = Starter(
            ledger,
            submissions,
            name=name,
            lease=self._lease,
            quotas=self._quotas,
            gate=self._gate,
            pool=self._pool,
            room=self._room,
            ended=self._ended,
        )
        self._quarantine = Quarantine(limits.attempt_grace_s)
        self._drains = 0
        self._session = self._new_session()
        self._exchanger = Exchanger(ledger, self._session.id, self._lease)
        self._heart: Heart | None = None
        self._alive = True
        self._began = False
        self._ends_by = 0.0
        self._ready: set[str] = set()
        self._clock = (0.0, 0.0)
        self._broken: BadInput | SchemaTooNew | None = None
        self.settled_count = 0
        self.handed_back_count = 0

    def _new_session(self) -> Session:
        kinds = tuple(sorted(lane_of(kind.name, kind.limit) for kind in self._registry))
        return Session(
            id=ids.random_id(),
            worker=self._name,
            lease_s=self._limits.lease_s,
            kinds=kinds,
            host=socket.gethostname(),
            version=version("forebay"),
        )

    async def _serve_more(self) -> None:
        self._session = replace(self._new_session(), id=self._session.id)
        await self._ask("open_session", self._ledger.open_session, self._session)

    @property
    def session_id(self) -> str:
        return self._session.id

    def _refused(self, said: str) -> None:
        self._broken = BadInput(
            f"A handler child cannot load the application: {said}.",
            remedy="It imports the module again, in this folder, with this environment: see that it can.",
        )
        self.drain("refused")

    def _outdated(self, schema: int) -> None:
        """End, because a newer version has migrated the ledger: what its rows mean to that one is not known here."""
        emit("schema_newer", worker=self._name, schema=schema)
        self._broken = SchemaTooNew(
            f"The ledger was migrated to schema {schema} by a newer version, and this worker has drained.",
            remedy="Start a worker of the newer version.",
        )
        self.drain("schema")

    def drain(self, reason: str = "asked") -> None:
        """Claim no more, finish what runs within the grace, hand back the rest. Twice: hand it back at once."""
        self._drains += 1
        if self._drains == 1:
            self._ends_by = time.monotonic() + self._limits.drain_grace_s
        emit("worker_draining", reason=reason, running=len(self._attempts))
        self._stand()
        self._pace.wake()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()

        def renewed(renewal: Renewal) -> None:
            loop.call_soon_threadsafe(self._renewed, renewal)

        try:
            await self._ask("stand", self._quotas.open, self._tell_limits, loop)
            stop_listening = await self._ask("listen", partial(self._ledger.listen, loop=loop), self._wake)
        except StoreError:
            if self._drains:
                return  # told to end before it could begin
            raise
        if self._pool is not None:
            self._pool.start()
        chores = (
            self._tick(),
            upkeep.rescue(self._ledger, self._limits.lease_s / 3),
            upkeep.prune(self._ledger, self._retention_s, self._name),
            *map(keep, self._chores),
            take_up(self._left_out, self._registry, self._quotas, self._serve_more),
        )
        helpers = [loop.create_task(each) for each in chores]
        try:
            while not self._drains:
                await self._serve_session(renewed)
        finally:
            self._quotas.close()
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            stop_listening()
            if self._pool is not None:
                await self._pool.close()
        emit("worker_stopped", worker=self._name, settled=self.settled_count, handed_back=self.handed_back_count)
        if self._broken is not None:
            raise self._broken

    async def _serve_session(self, renewed: Callable[[Renewal], None]) -> None:
        """From the opening of a session to its end, which is the worker's own unless the ledger gave it up."""
        try:
            await self._ask("open_session", self._ledger.open_session, self._session)
        except StoreError:
            if self._drains:
                return  # told to end before it could begin
            raise
        self._began = True
        emit(
            "worker_started",
            worker=self._name,
            session_id=self._session.id,
            kinds=list(self._session.kinds),
            concurrency=self._limits.concurrency,
            processes=self._limits.processes if self._pool else 0,
        )
        self._heart = Heart(
            self._ledger,
            self._session.id,
            lease_s=self._limits.lease_s,
            lease=self._lease,
            holds=self._holds,
            progress=self._progress,
            renewed=renewed,
        )
        self._heart.start()
        try:
            while self._alive and not self._drains:
                await self._step()
            if self._alive:
                await self._finish()
            else:
                await self._start_over()
        finally:
            heart, self._heart = self._heart, None
            await aside("end", heart.stop)
            self._exchanger.close()
            if not self._drains:
                self._session = self._new_session()
                self._exchanger = Exchanger(self._ledger, self._session.id, self._lease)
                self._alive = True

    async def _step(self) -> None:
        """One exchange, and then a wait until there is a reason for the next."""
        reply = await self._exchange()
        start, back = self._quarantine.sorted(reply.claims, running=bool(self._attempts))
        await self._start(start, reply.now)
        for task in back:
            self._hand_back(task, started=False)
        self._ready = self._room.seen(reply.lanes)
        self._quotas.unused(self._ready)
        self._stand()
        closed = self._quarantine.closed(running=bool(self._attempts))
        if (self._has_room() and not closed) or not self._alive:
            return
        due_s = self._limits.poll_s if reply.next_due_in_s is None else reply.next_due_in_s
        ends_at = time.monotonic() + min(self._limits.poll_s, due_s)
        while not (self._drains or not self._alive or self._is_time(ends_at)):
            await self._woken(ends_at - time.monotonic())

    def _is_time(self, ends_at: float) -> bool:
        done, in_hand = self._exchanger.waiting_count, len(self._attempts)
        if self._quotas.short(self._ready) and not self._quarantine.closed(running=in_hand > 0):
            return True
        return self._pace.is_time(ends_at, self._ready, done=done, in_hand=in_hand)

    def _has_room(self) -> bool:
        """Whether some of what is known to be ready may be claimed; while others wait in hand that need not be now."""
        hurries = self._room.blocks or not self._gate.waits
        if self._room.has_some_apart:
            return True
        return (hurries and self._room.has_some_for(self._ready)) or self._quotas.short(self._ready)

    def _stand(self) -> None:
        """In the lines of our limits, for as many as could run and no more."""
        if not self._quotas:
            return
        serves = self._alive and not self._drains
        ready = self._quarantine.standing(self._ready, running=bool(self._attempts)) if serves else set()
        self._quotas.stand_for(self._room.places, ready)

    def _quota_changed(self) -> None:
        self._stand()
        self._pace.wake()

    async def _woken(self, within_s: float) -> None:
        await self._pace.sleep(within_s, done=self._exchanger.waiting_count)

    async def _exchange(self) -> Reply:
        idle = self._pace.hint and not self._attempts and not self._exchanger.waiting_count
        self._pace.hint = False
        wants = [] if self._drains else self._wants()
        wants = self._quarantine.narrowed(wants, running=bool(self._attempts))
        reply, ended = await self._exchanger.exchange(wants, patient=self._patient, idle=idle)
        self._clock = (reply.now, time.monotonic())
        self._alive = self._alive and reply.alive
        self.settled_count += tell(ended, reply)
        return reply

    def _wants(self) -> list[Want]:
        limited = self._quotas.wants(self._limits.batch, self._limits.attempt_grace_s)
        return self._room.wants(self._ready) + limited

    def _patient(self) -> bool:
        """With a ledger that does not answer: while nobody has told us to end, and then for the grace."""
        return not self._drains or (self._drains < _HURRY and time.monotonic() < self._ends_by)

    async def _start(self, tasks: Sequence[Task], now: float) -> None:
        for task in tasks:
            kind = self._registry[task.kind]
            units = None
            if kind.limit is not None:
                try:
                    units = await self._starter.units(task, kind)
                except (Exception, SystemExit) as error:  # noqa: BLE001 - what a user's function raises is the outcome
                    self._settle(task, outcomes.of_error(error), 0.0)
                    continue
            attempt = self._starter.make(task, kind, now, units)
            self._attempts[attempt] = None
            attempt.wait()

    def _ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        task, run_s = attempt.task, attempt.run_s
        self._attempts.pop(attempt, None)
        if attempt.inside:
            self._room.freed(attempt.kind, run_s, task.lane)
        if self._quotas:
            self._quotas.ended(attempt.kind, outcome)
            self._stand()
        if outcome is not None:
            self._settle(task, outcome, run_s)
        elif attempt.why is Why.LEASE_LOST:
            emit("task_fenced", task_id=task.id, kind=task.kind, token=task.claim_count)
        else:
            self._hand_back(task, started=attempt.started_at is not None)
        if self._drains or not self._alive:
            self._pace.wake()
        else:
            self._pace.ended(done=self._exchanger.waiting_count, in_hand=len(self._attempts))

    def _settle(self, task: Task, outcome: Outcome, run_s: float) -> None:
        told, at = self._clock
        now = told + time.monotonic() - at
        self._exchanger.settle(Ended(decided(task, outcome, now), task, run_s))

    def _hand_back(self, task: Task, *, started: bool) -> None:
        self._exchanger.release(Release(task.id, task.claim_count, task.job_id, started=started))
        self.handed_back_count += 1
        emit("task_handed_back", task_id=task.id, kind=task.kind)

    def _holds(self) -> list[Hold]:
        """Attempts that began late, because they waited for a child, get their full time from now."""
        grace_s = self._limits.attempt_grace_s
        return [each.hold(grace_s) for each in list(self._attempts) if each.late_by_s > grace_s / 2]

    def _progress(self) -> list[Progress]:
        """Return the last report of each attempt in hand: every renewal carries all, so a failed one loses none."""
        return [reported for each in list(self._attempts) if (reported := each.desk.reported) is not None]

    def _wake(self) -> None:
        self._pace.hint = True
        self._pace.wake()
        if self._attempts and self._heart is not None:
            self._heart.hurry()

    def _renewed(self, renewal: Renewal) -> None:
        if not renewal.alive:
            self._alive = False
            self._pace.wake()
        if renewal.newer_schema is not None and not self._drains:
            self._outdated(renewal.newer_schema)
        if renewal.drain and not self._drains:
            self.drain("asked")
        asked = set(renewal.cancel_requested)
        for attempt in list(self._attempts):
            if attempt.task.id in asked:
                attempt.stop(Why.CANCEL)

    async def _tick(self) -> None:
        while True:
            if self._heart is not None:
                self._heart.tick()
            self._quotas.tick()
            self._stand()
            for attempt in list(self._attempts):
                if attempt.started_at is not None:
                    self._room.runs(attempt.kind, attempt.run_s, attempt.task.lane)
                elif attempt.inside and not attempt.has_place and self._waited_enough(attempt):
                    attempt.stop(Why.WAITED)
            await asyncio.sleep(min(1.0, self._limits.lease_s / 10))

    def _waited_enough(self, attempt: Attempt) -> bool:
        """Another worker may be free sooner."""
        busy = self._pool is not None and self._pool.busy if attempt.kind.blocking else self._gate.full
        return attempt.waited_s > (_IN_HAND_S if busy else _NO_CHILD_S)

    async def _finish(self) -> None:
        """What has begun may end by itself within the grace; the rest goes back at once, with no retry burnt."""
        for attempt in list(self._attempts):
            if attempt.started_at is None:
                attempt.stop(Why.DRAIN)
        ends_at = time.monotonic() + self._limits.drain_grace_s
        while self._attempts and self._drains < _HURRY and (left_s := ends_at - time.monotonic()) > 0:
            if self._exchanger.waiting_count:
                await self._exchange()
            else:
                await self._woken(left_s)
        for attempt in list(self._attempts):
            attempt.stop(Why.DRAIN)
        while self._attempts:
            await self._woken(1.0)
        await self._exchange()
        # Unanswered, the session ends with its lease; nothing is held under it any more.
        with suppress(StoreError):
            await self._ask("close_session", self._ledger.close_session, self._session.id)

    async def _start_over(self) -> None:
        """The ledger gave our tasks to others: what still runs here is to stop, and what ended is fenced."""
        emit("session_lost", session_id=self._session.id)
        self._lease.lost()
        for attempt in list(self._attempts):
            attempt.stop(Why.LEASE_LOST)
        while self._attempts:
            await self._woken(1.0)
        await self._exchange()

    async def _ask(self, verb: str, call: Callable[..., T], *arguments: object) -> T:
        """A drain ends the asking, and before anything has begun so does what waiting does not mend."""
        return await ask(verb, lambda error: self._drains > 0 or not (self._began or passes(error)), call, *arguments)
