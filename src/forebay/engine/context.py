"""What a handler gets beside its payload: which attempt it is, how long it may run, and a way to speak."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any, Protocol

from forebay.blobs import BlobRef
from forebay.engine.content import Content
from forebay.engine.desk import Chunks, Desk
from forebay.engine.signals import Stopped
from forebay.errors import BadInput
from forebay.ids import shown
from forebay.model.exchange import Usage
from forebay.model.job import Event
from forebay.model.limit import check_seconds, check_units
from forebay.model.names import check_label
from forebay.model.task import Task

SLOT_WAIT_S = 30.0
MAX_SLOT_WAIT_S = 300.0
_BETWEEN_S = 0.2
_IN_A_ROW = 10
_log = logging.getLogger("forebay.task")


class Calls(Protocol):
    """Where the slots of an attempt come from: beside its worker's limiter, or at the other end of a socket."""

    @property
    def waited_s(self) -> float: ...

    def describe(self, text: str) -> None: ...

    def slot(self, limit: str | None, units: dict[str, int] | None, timeout_s: float) -> Any: ...  # noqa: ANN401 - for `with` in a plain handler, for `async with` in an async one


class Context:
    """One attempt, as its handler sees it."""

    def __init__(
        self,
        task: Task,
        desk: Desk,
        content: Content,
        *,
        calls: Callable[[], Calls],
        stopping: Callable[[], bool] | None = None,
        waited_s: float = 0.0,
    ) -> None:
        self._task = task
        self._desk = desk
        self._content = content
        self._calls = calls
        self._stopping = stopping
        self._waited_s = waited_s
        self._stopped = False
        self._told_until = -math.inf
        self._began_at = time.monotonic()

    @property
    def task_id(self) -> str:
        return self._task.id

    @property
    def job_id(self) -> str | None:
        return self._task.job_id

    @property
    def kind(self) -> str:
        return self._task.kind

    @property
    def tenant(self) -> str:
        return self._task.tenant

    @property
    def tags(self) -> tuple[str, ...]:
        return self._task.tags

    @property
    def priority(self) -> int:
        return self._task.priority

    @property
    def chunk_index(self) -> int | None:
        return self._task.chunk_index

    @property
    def blob(self) -> BlobRef | None:
        """What was stored beside the payload, if anything was."""
        sha256 = self._task.payload_blob
        return None if sha256 is None else BlobRef(self._task.tenant, sha256)

    @property
    def attempt(self) -> int:
        """Counted from 1; every execution is one, whatever came of it."""
        return self._task.attempt_count + 1

    @property
    def retry_count(self) -> int:
        return self._task.retry_count

    @property
    def reschedule_count(self) -> int:
        return self._task.reschedule_count

    @property
    def token(self) -> int:
        """Rises with every claim of the task: hand it to what you write to, if that can refuse an older one."""
        return self._task.claim_count

    @property
    def deadline_at(self) -> float | None:
        """The task's own wall-clock bound, if it has one."""
        return self._task.deadline_at

    @property
    def remaining_s(self) -> float:
        """How long this attempt may still run; its time stands still while it waits for a slot."""
        return max(0.0, self._task.timeout_s - self.ran_s)

    @property
    def ran_s(self) -> float:
        """How long this attempt has run, without what it waited for a slot."""
        return time.monotonic() - self._began_at - self._calls().waited_s

    @property
    def waited_s(self) -> float:
        """How long this attempt has waited for slots, and, if its handler is async, in hand before it began."""
        return self._waited_s + self._calls().waited_s

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        fields = {"task_id": self.task_id, "kind": self.kind, "attempt": self.attempt}
        return logging.LoggerAdapter(_log, {"fields": fields})

    def checkpoint(self) -> None:
        """Raise if the attempt is to stop; cheap enough for every page. Let what it raises pass."""
        if self._stopped or (self._stopping is not None and self._stopping()):
            raise Stopped("asked to stop")

    def progress(self, share: float, note: str = "") -> None:
        """Report how far the attempt is, from 0 to 1; also a checkpoint. Ten in a row pass, then five a second."""
        self.checkpoint()
        if not isinstance(share, (int, float)) or share != share:  # noqa: PLR0124 - NaN is not a share
            raise BadInput(f"progress is {shown(share)}.", remedy="Give a number from 0 to 1.")
        now = time.monotonic()
        told_until = max(self._told_until, now - _IN_A_ROW * _BETWEEN_S) + _BETWEEN_S
        if told_until <= now or share >= 1:
            self._told_until = told_until
            self._desk.progress(min(1.0, max(0.0, share)), str(note)[:200])

    def used(self, meter: str, unit: str, amount: float = 1) -> None:
        """Book what was consumed of a metered service; it counts even if the attempt fails or is stopped later."""
        self._desk.used(Usage(meter, unit, amount))

    def describe(self, text: str) -> None:
        """Say what this attempt works on: `forebay limits show` names it for each slot. Only in an async handler."""
        self._calls().describe(check_label("text", text))

    def slot(
        self, limit: str | None = None, *, units: dict[str, int] | None = None, timeout_s: float = SLOT_WAIT_S
    ) -> Any:  # noqa: ANN401 - for `with` in a plain handler, for `async with` in an async one
        """Leave for one call of a limit, the kind's own if none is named: `async with ctx.slot(units={"pages": 15}):`.

        What the block raises says what became of the call: 429 and 5xx hold back everybody who shares the limit.
        None in time is `Busy`; let it pass, and the task comes back later, with no retry burnt.
        """
        checked = None if units is None else check_units(units)
        return self._calls().slot(limit, checked, check_seconds("timeout_s", timeout_s, most=MAX_SLOT_WAIT_S))

    def begin(self) -> None:
        """The handler starts now."""
        self._began_at = time.monotonic()

    def chunks(self) -> Chunks:
        """In a merge: the job's chunks in order, with their results."""
        return Chunks(self._desk, self._content)

    def lost(self, chunk: Task, told: Event | None = None) -> None:
        """In a merge: have a chunk done again whose stored result cannot be read; its job tells of it."""
        self._desk.lost(chunk.id, chunk.result_blob or "", told)

    def stop(self) -> None:
        self._stopped = True
