"""Says where tasks, jobs and lanes stand: reads what is around them, each thing once, for the rules to judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property

from forebay.clock import iso
from forebay.engine.registry import Registry
from forebay.engine.submission import served_limit
from forebay.errors import ForebayError, NotFound
from forebay.limits.limiter import Limiter
from forebay.model.exchange import Session
from forebay.model.job import Job
from forebay.model.lane import NOTHING_AHEAD, Depth, Lane, LaneState, Pause
from forebay.model.names import kind_of, limit_of
from forebay.model.query import Query
from forebay.model.task import Role, Status, Task, WaitReason
from forebay.rules.foresight import Outlook
from forebay.rules.standing import NOBODY, Standing, job_standing, next_in, standing
from forebay.rules.why import Gate, LimitView, Surroundings, delay_s, in_brackets
from forebay.stores.base import Ledger

_LOOKED_AT = 50


class Explainer:
    """One look: workers, lanes and each limit are read when they are first needed, and not again."""

    def __init__(
        self, ledger: Ledger, limiter: Callable[[], Limiter | None], registry: Registry, *, now: float
    ) -> None:
        self._ledger = ledger
        self._limiter = limiter
        self._registry = registry
        self._now = now
        self._limits: dict[str, Outlook | LimitView] = {}
        self._lanes: dict[str, LaneState] = {}
        self._depths: dict[str, Depth] = {}
        self._silent: LimitView | None = None

    def standing(self, found: Task | Job) -> Standing:
        if isinstance(found, Job):
            return self._job(found)
        return self._named(standing(found, self._around(found), now=self._now), found)

    def glance(self, task: Task) -> Standing:
        """Without its place in line, which costs a question of its own; so neither with its time."""
        if task.status is not Status.PENDING:
            return standing(task, NOBODY, now=self._now)
        around = self._around_lane(task.kind, task.lane, NOTHING_AHEAD)
        return self._named(standing(task, replace(around, ahead=None), now=self._now), task)

    def _named(self, found: Standing, task: Task) -> Standing:
        """With the limit that its workers run it under, where its lane does not say so."""
        if found.limit is not None or task.status is not Status.PENDING:
            return found
        return replace(found, limit=self.limit_of(task.kind, task.lane))

    def lanes(self, limit: str) -> list[tuple[Lane, Standing]]:
        """Lanes with open tasks that wait for a limit, and how the next task of each stands."""
        found = [lane for lane in self._ledger.lanes() if self.limit_of(lane.kind, lane.name) == limit]
        return [
            (lane, next_in(lane, self._around_lane(lane.kind, lane.name, NOTHING_AHEAD), now=self._now))
            for lane in found
        ]

    def _job(self, job: Job) -> Standing:
        waiting = None if job.status.terminal else self._waiting(job)
        around = self._around(waiting) if waiting else NOBODY
        last = around
        if waiting and waiting.status is Status.PENDING and job.pending_count > 1:
            last = self._around(waiting, more=job.pending_count - 1)
        return job_standing(job, waiting, around, last, now=self._now)

    def _waiting(self, job: Job) -> Task | None:
        """The task that the job waits for next: one that runs tells less than one that cannot."""
        for status in (Status.PENDING, Status.RUNNING):
            page = self._ledger.list_tasks(Query(job_id=job.id, status=status, size=_LOOKED_AT))
            own = [task for task in page.items if task.role is not Role.FOLLOW]
            if own:
                return min(own, key=lambda task: task.available_at)
        return None

    def _around(self, task: Task, *, more: int = 0) -> Surroundings:
        """With so many more before it than there are."""
        if task.status is Status.RUNNING:
            return self._around_lane(task.kind, task.lane, NOTHING_AHEAD)
        if task.status is not Status.PENDING:
            return NOBODY
        # One that is not due yet has all that are ready now before it.
        ahead = self._ahead(task.id).behind(more)
        around = self._around_lane(task.kind, task.lane, ahead, units=self._units(task))
        return replace(around, ahead=Depth(more, ahead.certainty)) if delay_s(task, self._now) else around

    def _ahead(self, task_id: str) -> Depth:
        if task_id not in self._depths:
            self._depths[task_id] = self._ledger.ahead(task_id)
        return self._depths[task_id]

    def _around_lane(
        self, kind: str, lane: str, ahead: Depth, *, units: Mapping[str, int] | None = None
    ) -> Surroundings:
        state = self._lane(lane)
        limit = self.limit_of(kind, lane)
        view = None
        if limit is not None:
            seen = self._outlook(limit)
            if isinstance(seen, LimitView):
                view = seen
            else:
                running = state.running_count
                view = seen.view(kind, ahead=ahead.task_count, running=running, at=self._now, units=units)
        return Surroundings(
            worker_count=self._workers.get(kind, 0),
            ahead=ahead,
            gates=() if state.pause is None else (_pause(state.pause),),
            limit=view,
        )

    def _lane(self, name: str) -> LaneState:
        if name not in self._lanes:
            self._lanes[name] = self._ledger.lane_state(name)
        return self._lanes[name]

    @cached_property
    def _workers(self) -> dict[str, int]:
        """How many workers that are alive run each kind."""
        counted: dict[str, int] = {}
        for session in self._sessions:
            if session.expires_at > self._now:
                for kind in map(kind_of, session.kinds):
                    counted[kind] = counted.get(kind, 0) + 1
        return counted

    @cached_property
    def _sessions(self) -> list[Session]:
        return self._ledger.sessions()

    def limit_of(self, kind: str, lane_name: str) -> str | None:
        """Of a task that was submitted by somebody who did not know the limit of its kind, its workers do."""
        known = self._registry.find(kind)
        return limit_of(lane_name) or (known.limit if known else served_limit(self._sessions, kind))

    def _units(self, task: Task) -> Mapping[str, int] | None:
        """What its handler's call takes, if that can be told from here."""
        kind = self._registry.find(task.kind)
        if kind is None or kind.limit is None or kind.slot != "handler" or task.payload_json is None:
            return None
        try:
            return kind.units_of(task.payload)
        except Exception:  # noqa: BLE001 - code of a user, which the worker reports when it runs the task
            return None

    def _outlook(self, limit: str) -> Outlook | LimitView:
        if limit not in self._limits:
            self._limits[limit] = self._silent or self._read(limit)
        return self._limits[limit]

    def _read(self, limit: str) -> Outlook | LimitView:
        try:
            limiter = self._limiter()
            if limiter is not None:
                return limiter.outlook(limit)
        except NotFound:
            pass
        except ForebayError as error:
            # All limits are in one store: that it is silent need not be found out for each.
            self._silent = _unknown(f"its limit store does not answer: {error}")
            return self._silent
        return _unknown(
            f"limit {limit!r} is not defined: `forebay limits set {limit}`, or start a worker that defines it"
        )


def _pause(pause: Pause) -> Gate:
    since = f"{iso(pause.at)}{in_brackets(pause.note)}"
    text = f"lane {pause.lane!r} was paused at {since}: `forebay lanes resume {pause.lane}`"
    binds = f"pause of lane {pause.lane}"
    return Gate(reason=WaitReason.PAUSED, text=text, until=pause.until, binds=binds, note=pause.note)


def _unknown(text: str) -> LimitView:
    return LimitView(gates=(Gate(reason=WaitReason.LIMIT, text=text),), answers=False)
