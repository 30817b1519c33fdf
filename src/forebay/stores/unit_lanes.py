"""The lanes of a ledger that keeps each unit whole: their pauses, their counts, and the line in each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from forebay.clock import Clock
from forebay.model.exchange import Acted, Action, Audit
from forebay.model.lane import Certainty, Depth, Lane, LaneState, Pause
from forebay.model.task import Status, Task
from forebay.rules import pausing
from forebay.rules.actions import DONE, audited
from forebay.rules.pausing import Counts, Pauses
from forebay.stores.base import MAX_AHEAD
from forebay.stores.checks import check_pause, check_repeat
from forebay.stores.listeners import Listeners
from forebay.stores.unit_reads import UnitReads, verb

if TYPE_CHECKING:
    import asyncio


class UnitLanes(UnitReads):
    """Listeners are told by this object alone: those of others find out when they look."""

    def __init__(self, clock: Clock, guard: AbstractContextManager[object] | None = None) -> None:
        super().__init__(guard)
        self._clock = clock
        self._listeners = Listeners()

    @abstractmethod
    def _candidates(self, kind: str, lane: str | None, now: float, paused: Container[str] = ()) -> Iterator[Task]:
        """Ready tasks in the order they are to be claimed, without those of paused lanes."""

    @abstractmethod
    def _pauses(self) -> Iterable[Pause]:
        """All that are stored, also those that are over."""

    @abstractmethod
    def _change_pauses(self, action: Action, step: Callable[[Iterable[Pause]], dict[str, Pause]]) -> None:
        """Apply a step atomically, and once for an action."""

    @abstractmethod
    def _recorded(self, action: Action) -> tuple[Audit, list[Acted]] | None:
        """What was recorded of this action before, and the answer that it got."""

    @abstractmethod
    def _record(self, audit: Audit, answer: list[Acted]) -> None: ...

    def listen(self, wake: Callable[[], None], *, loop: asyncio.AbstractEventLoop | None = None) -> Callable[[], None]:
        return self._listeners.add(wake, loop)

    def _wake(self) -> None:
        self._listeners.tell()

    @abstractmethod
    def _held(self) -> Iterable[Task]:
        """All running tasks."""

    def _in_force(self, now: float) -> Pauses:
        return pausing.in_force(self._pauses(), now)

    @verb
    def pause(self, lane: str, action: Action, *, until: float | None = None) -> Acted:
        check_pause(lane, action, until)
        return self._act_on_lane("pause", lane, action, partial(pausing.paused, until=until, note=action.note))

    @verb
    def resume(self, lane: str, action: Action) -> Acted:
        check_pause(lane, action)
        return self._act_on_lane("resume", lane, action, pausing.resumed)

    def _act_on_lane(self, verb: str, lane: str, action: Action, step: Callable[..., dict[str, Pause]]) -> Acted:
        if (recorded := self._recorded(action)) is not None:
            check_repeat(recorded[0], verb, [lane])
            return recorded[1][0]
        now = self._clock.now()
        answer = Acted(lane, DONE)
        self._change_pauses(action, partial(step, now=now, lane=lane))
        self._record(audited(action, verb, [lane], now), [answer])
        self._wake()
        return answer

    @verb
    def lanes(self) -> list[Lane]:
        now = self._clock.now()
        counted: dict[str, Counts] = {}
        for unit in self._units():
            for task in unit.tasks.values():
                if not task.status.terminal:
                    counted[task.lane] = pausing.count_task(counted.get(task.lane, Counts()), task, now)
        return pausing.lanes(counted, self._in_force(now))

    @verb
    def lane_state(self, lane: str) -> LaneState:
        running = sum(task.lane == lane for task in self._held())
        return LaneState(pause=self._in_force(self._clock.now()).get(lane), running_count=running)

    @verb
    def ahead(self, task_id: str) -> Depth:
        task = self.get(task_id)
        if task is None or task.status is not Status.PENDING:
            return Depth(0)
        line = self._candidates(task.kind, task.lane, self._clock.now())
        counted = sum(1 for _ in islice(takewhile(lambda other: other.id != task_id, line), MAX_AHEAD))
        return Depth(counted, Certainty.EXACT if counted < MAX_AHEAD else Certainty.AT_LEAST)
