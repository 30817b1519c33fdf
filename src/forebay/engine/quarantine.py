"""Lets a task that may end its worker run alone, so that nothing else is lost with it again."""

from __future__ import annotations

from collections.abc import Sequence

from forebay.model.exchange import Want
from forebay.model.task import Task
from forebay.rules import settlement


class Quarantine:
    """A suspect that was claimed in company goes back; then the worker empties itself and claims that kind, one."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._kind: str | None = None

    def closed(self, *, running: bool) -> bool:
        """Whether nothing may be claimed until what runs has ended."""
        return running and self._kind is not None

    def standing(self, ready: set[str], *, running: bool) -> set[str]:
        """The kinds to wish for slots for: none while others run, then that of the suspect."""
        if self._kind is None:
            return ready
        return set() if running else ready & {self._kind}

    def narrowed(self, wants: list[Want], *, running: bool) -> list[Want]:
        """What to ask for while a suspect waits to be alone: nothing while others run, then one of its kind."""
        if self._kind is None:
            return wants
        one = self._kind if not running else None
        return [Want(want.kind, int(want.kind == one), grace_s=self._grace_s) for want in wants]

    def sorted(self, claims: Sequence[Task], *, running: bool) -> tuple[list[Task], list[Task]]:
        """Those that may start, and those that go back."""
        suspects = [task for task in claims if settlement.suspect(task)]
        if len(claims) == 1 and not running:
            self._kind = suspects[0].kind if suspects else None
            return list(claims), []
        if suspects:
            self._kind = suspects[0].kind
        elif not running:
            self._kind = None  # it is somebody else's by now
        return [task for task in claims if task not in suspects], suspects
