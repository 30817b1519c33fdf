"""The limited kinds of a worker, each with its quota."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from forebay.engine.quota import CallQuota, HandlerQuota, Quota
from forebay.engine.registry import Kind
from forebay.engine.slots import Calls, Waits
from forebay.errors import ForebayError
from forebay.limits.limiter import Limiter
from forebay.limits.works_on import WorksOn
from forebay.model.exchange import Want
from forebay.model.outcome import Failed, Outcome
from forebay.model.task import Task
from forebay.observe import emit
from forebay.rules.verdict import ErrorClass


class Quotas:
    """Empty until it is opened; kinds without a limit are not its business."""

    def __init__(
        self, kinds: Iterable[Kind], limiter: Callable[[], Limiter], most: int, changed: Callable[[], None]
    ) -> None:
        self._kinds = [kind for kind in kinds if kind.limit is not None]
        self._limiter = limiter
        self._most = most
        self._changed = changed
        self._by_kind: dict[str, Quota] = {}
        self._pausing: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Quota]:
        return iter(self._by_kind.values())

    def __bool__(self) -> bool:
        return bool(self._by_kind)

    def find(self, kind: str) -> Quota | None:
        return self._by_kind.get(kind)

    def open(self, tell: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Blocking; `tell` says what our limits are, and `loop` is where we shall hear of slots."""
        if self._kinds:
            tell()
        self._by_kind.update(self.made(self._kinds, loop))

    def made(self, kinds: Iterable[Kind], loop: asyncio.AbstractEventLoop) -> dict[str, Quota]:
        """Blocking; a quota for each of these limited kinds."""
        found: dict[str, Quota] = {}
        for kind in kinds:
            assert kind.limit is not None  # noqa: S101 - for the type checker
            stand = self._limiter().stand(kind.limit, loop=loop, label=kind.name)
            make = HandlerQuota if kind.slot == "handler" else CallQuota
            found[kind.name] = make(kind, stand, self._most, self._changed)
        return found

    def take_up(self, made: dict[str, Quota]) -> None:
        """In the loop, whose turns go through the quotas one by one."""
        self._by_kind.update(made)
        self._changed()

    def calls(self, kind: Kind, attempt: Waits, task: Task) -> Calls:
        """Slots for one attempt of a task."""
        held = kind.limit is not None and kind.slot == "handler"
        return Calls(
            self._limiter,
            attempt,
            limit=kind.limit,
            held=held,
            label=kind.name,
            context={"task_id": task.id, "kind": task.kind, "job_id": task.job_id},
            works_on=WorksOn(task.job_id, task.id),
        )

    @property
    def hungry(self) -> bool:
        """Whether slots wait for tasks: then an exchange is worth its cost."""
        return any(quota.hungry for quota in self)

    def wants(self, most: int, grace_s: float) -> list[Want]:
        """Those that want none are looked at, too: there may be tasks by now."""
        return [Want(quota.kind.name, min(most, quota.wanted()), grace_s=grace_s) for quota in self]

    @property
    def backed_up(self) -> bool:
        return any(quota.backed_up for quota in self)

    def short(self, ready: set[str]) -> bool:
        return any(quota.kind.name in ready and quota.short for quota in self)

    def curious(self, ready: set[str]) -> bool:
        """Whether a look at the ledger could tell something that matters."""
        return any(quota.kind.name not in ready or quota.wanted() > 0 for quota in self)

    def stand_for(self, places: Callable[[Kind], int], ready: set[str]) -> None:
        for quota in self:
            quota.stand_for(places(quota.kind), ready=quota.kind.name in ready)

    def unused(self, ready: set[str]) -> None:
        for quota in self:
            quota.unused(ready=quota.kind.name in ready)

    def tick(self) -> None:
        for quota in self:
            quota.tick()

    def close(self) -> None:
        for quota in self:
            quota.close()

    def ended(self, kind: Kind, outcome: Outcome | None) -> None:
        """A key that the provider does not take is everybody's: nothing more is sent until somebody has seen to it."""
        if kind.limit is None or not isinstance(outcome, Failed) or outcome.error_class != ErrorClass.AUTH:
            return
        pausing = asyncio.get_running_loop().create_task(self._pause(kind.limit, outcome.text))
        self._pausing.add(pausing)
        pausing.add_done_callback(self._pausing.discard)

    async def _pause(self, limit: str, text: str) -> None:
        try:
            await asyncio.to_thread(self._limiter().pause, limit, note=f"auth: {text}"[:200])
        except ForebayError as error:
            emit("store_failed", verb="pause", error_code=error.code, text=str(error), pause_s=0)
