"""Decides which lanes are paused, since when and until when, and what that leaves for workers to come back for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from forebay.model.lane import Lane, Pause
from forebay.model.names import kind_of
from forebay.model.task import Status, Task

Pauses = Mapping[str, Pause]


def in_force(stored: Iterable[Pause], now: float) -> dict[str, Pause]:
    """By lane. A pause is over at its `until`, and then as if it had never been."""
    return {pause.lane: pause for pause in stored if pause.until is None or pause.until > now}


def paused(stored: Iterable[Pause], now: float, *, lane: str, until: float | None, note: str) -> dict[str, Pause]:
    """All pauses after one more; a lane that rests already does so since its first one."""
    before = in_force(stored, now)
    since = before[lane].at if lane in before else now
    return {**before, lane: Pause(lane=lane, at=since, until=until, note=note)}


def resumed(stored: Iterable[Pause], now: float, *, lane: str) -> dict[str, Pause]:
    return {name: pause for name, pause in in_force(stored, now).items() if name != lane}


class Counts(NamedTuple):
    """How many open tasks a lane has, and since when the oldest ready one is due."""

    ready: int = 0
    later: int = 0
    running: int = 0
    oldest_ready_at: float | None = None


def count_task(counts: Counts, task: Task, now: float) -> Counts:
    """Return the counts of a lane with one more open task."""
    if task.status is Status.RUNNING:
        return counts._replace(running=counts.running + 1)
    if task.available_at > now:
        return counts._replace(later=counts.later + 1)
    due_at = [at for at in (counts.oldest_ready_at, task.available_at) if at is not None]
    return counts._replace(ready=counts.ready + 1, oldest_ready_at=min(due_at))


def lanes(counted: Mapping[str, Counts], pauses: Pauses) -> list[Lane]:
    return [_lane(name, counted.get(name, Counts()), pauses.get(name)) for name in sorted({*counted, *pauses})]


def _lane(name: str, counts: Counts, pause: Pause | None) -> Lane:
    return Lane(
        name=name,
        kind=kind_of(name),
        paused_at=pause.at if pause else None,
        paused_until=pause.until if pause else None,
        note=pause.note if pause else "",
        ready_count=counts.ready,
        later_count=counts.later,
        running_count=counts.running,
        oldest_ready_at=counts.oldest_ready_at,
    )


class Left(NamedTuple):
    """What a session may come back for."""

    lanes: dict[str, tuple[str, ...]]
    next_due_in_s: float | None


def left(
    ready: Mapping[str, Sequence[str]], due: Iterable[float | None], pauses: Pauses, *, now: float, most: int
) -> Left:
    """`ready`: the lanes of each kind that have ready tasks; `due`: when the next delayed tasks become ready."""
    ends = [pauses[lane].until for lanes in ready.values() for lane in lanes if lane in pauses]
    instants = [at for at in (*due, *ends) if at is not None]
    claimable = {kind: tuple(lane for lane in lanes if lane not in pauses)[:most] for kind, lanes in ready.items()}
    return Left(claimable, max(0.0, min(instants) - now) if instants else None)
