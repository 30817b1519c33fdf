"""A lane as it is shown, and what keeps its tasks from being claimed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A lane that is paused or has open tasks. Ready: its tasks that are due, whether it is paused or not.

    `oldest_ready_at` is when the task that has been ready longest became due, None where no task is ready.
    """

    name: str
    kind: str
    paused_at: float | None
    paused_until: float | None
    note: str
    ready_count: int
    later_count: int
    running_count: int
    oldest_ready_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Somebody's wish that a lane rests; without `until`, it does so until it is resumed."""

    lane: str
    at: float
    until: float | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneState:
    """What holds back or uses a lane: cheap to read, however many tasks wait in it."""

    pause: Pause | None
    running_count: int


class Certainty(StrEnum):
    """How sure a count is."""

    EXACT = "exact"
    ABOUT = "about"
    AT_LEAST = "at_least"


@dataclass(frozen=True, slots=True)
class Depth:
    """How many tasks are before one in line."""

    task_count: int
    certainty: Certainty = Certainty.EXACT

    def behind(self, more: int) -> Depth:
        """As many more before it."""
        return Depth(self.task_count + more, self.certainty)


NOTHING_AHEAD = Depth(0)
