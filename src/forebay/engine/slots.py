"""The slots that an attempt takes for its calls, and what the end of each call says to the limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from forebay.clock import steady
from forebay.engine import outcomes
from forebay.errors import BadInput, Conflict
from forebay.limits.slot import Slot
from forebay.limits.works_on import WorksOn
from forebay.model.call_outcome import CallOutcome
from forebay.model.outcome import Completed, Failed, Outcome, Rescheduled
from forebay.rules.verdict import ErrorClass

if TYPE_CHECKING:
    from forebay.engine.lease import Lease
    from forebay.limits import Limiter

_UNANSWERED = {ErrorClass.TIMEOUT, ErrorClass.DEADLINE, ErrorClass.CANCELED, ErrorClass.HANDLER_CRASHED}
_UNWELL = {
    ErrorClass.TIMEOUT,
    ErrorClass.NETWORK_ERROR,
    ErrorClass.SERVICE_UNAVAILABLE,
    ErrorClass.INTERNAL_ERROR,
}


def give_back(slot: Slot, outcome: Outcome | None, *, sent: bool = True) -> HoldBack:
    """End the call: tell the limit what its outcome means for everybody else, unless the handler told it.

    Return how long that holds everybody back: a refusal which did not say, or a failure that the breaker answers.
    """
    if not slot.held:
        return HoldBack()
    call = _call_of(outcome) if sent else CallOutcome("unsent")
    held_back = HoldBack()
    if call.blames_provider:
        held_back = HoldBack(down_s=slot.outage_s())
    if not sent or not slot.told:
        if call.kind == "throttled":
            held_back = HoldBack(refused_s=slot.backoff_s(call.retry_after_s))
        slot.ended(call, outcome.text if isinstance(outcome, Failed) else "")
    slot.release()
    return held_back


class HoldBack(NamedTuple):
    """How long everybody is held back by a refusal, or by the breaker; None where they are not."""

    refused_s: float | None = None
    down_s: float | None = None


def _call_of(outcome: Outcome | None) -> CallOutcome:  # noqa: PLR0911 - one for each ending
    """What became of the call, by the end of the attempt where the handler's exception did not show it."""
    match outcome:
        case Completed():
            return CallOutcome("ok")
        case Rescheduled():
            return CallOutcome("abandoned")
        case Failed(call=CallOutcome() as call):
            return call
        case Failed(error_class=ErrorClass.RATE_LIMITED):
            return CallOutcome("throttled", outcome.delay_s)
        case Failed(error_class=ErrorClass.QUOTA_EXHAUSTED):
            return CallOutcome("quota", outcome.delay_s)
        case Failed():
            unwell = outcome.error_class in _UNWELL
            if outcome.error_class in _UNANSWERED:
                # Nobody waited for the answer to the end, so that the provider may still work on the call.
                return CallOutcome("cut_off", blames_provider=unwell)
            return CallOutcome("failed" if unwell else "abandoned", blames_provider=unwell)
        case _:
            return CallOutcome("cut_off")


def _over() -> Conflict:
    return Conflict("This attempt is over.", remedy="Make its calls before its handler returns.")


class Waits(Protocol):
    """An attempt whose clock stands still while it waits for a slot."""

    @property
    def lease(self) -> Lease: ...

    def pause(self, *, ours: bool) -> None: ...

    def resume(self, *, ours: bool, got: bool) -> None: ...


class Calls:
    """One slot at a time of each limit, for one attempt, in its worker's loop."""

    def __init__(
        self,
        limiter: Callable[[], Limiter],
        attempt: Waits,
        *,
        limit: str | None,
        held: bool,
        label: str,
        context: Mapping[str, object] | None = None,
        works_on: WorksOn | None = None,
    ) -> None:
        self._limiter = limiter
        self._attempt = attempt
        self._kind = label
        self._works_on = works_on
        self._text = ""
        self._limit = limit
        self._held = {limit} if held else set()
        self._slots: dict[str, Slot] = {}
        self._closed = False
        self._context = dict(context or {})
        self._held_back = HoldBack()
        self._is_rejected = False
        self._waited_s = 0.0
        self._waits_since: set[float] = set()

    @property
    def waited_s(self) -> float:
        """In all, with what it waits for now."""
        now = steady()
        return self._waited_s + sum(now - since for since in self._waits_since)

    def describe(self, text: str) -> None:
        self._text = text

    @property
    def _label(self) -> str:
        if self._works_on is None:
            return self._kind
        return self._works_on.label(self._kind, self._text)

    def named(self, limit: str | None) -> str:
        """The limit that is meant."""
        name = limit or self._limit
        if name is None:
            raise BadInput("This kind has no limit.", remedy="Name one: ctx.slot('…'), or @app.task(…, limit='…').")
        if self._closed:
            raise _over()
        if name in self._held:
            raise Conflict(
                f"This attempt holds a slot of {name!r} already: its handler is one call.",
                remedy='A handler that makes several calls is registered with slot="call".',
            )
        if name in self._slots:
            raise Conflict(f"This attempt holds a slot of {name!r} already.", remedy="Leave its block first.")
        return name

    async def enter(self, limit: str | None, units: dict[str, int] | None, timeout_s: float) -> Slot:
        name = self.named(limit)
        asked = partial(self._limiter().slot, name, units=units, timeout_s=timeout_s, label=self._label)
        self._slots[name] = slot = asked()
        slot.context = self._context
        ours = name == self._limit
        began_at = steady()
        self._waits_since.add(began_at)
        self._attempt.pause(ours=ours)
        try:
            while not await self._granted(slot):
                self._slots[name] = slot = asked()
                slot.context = self._context
        except BaseException:
            self._slots.pop(name, None)
            raise
        finally:
            self._waits_since.discard(began_at)
            self._waited_s += steady() - began_at
            self._attempt.resume(ours=ours, got=slot.held)
        if self._closed:
            give_back(slot, None, sent=False)
            raise _over()
        return slot

    async def _granted(self, slot: Slot) -> bool:
        """False when the task may be another's by then: no call before we know, and others can use the slot."""
        await self._attempt.lease.until_sure()
        await slot.__aenter__()
        if self._attempt.lease.sure or self._closed:
            return True
        give_back(slot, None, sent=False)
        return False

    def held(self, limit: str) -> Slot:
        slot = self._slots.get(limit)
        if slot is None:
            raise Conflict("This slot is not held.", remedy="Say it inside the block.")
        return slot

    def leave(self, limit: str, outcome: Outcome | None) -> None:
        slot = self._slots.pop(limit, None)
        if slot is not None:
            self._end(slot, outcome)

    def _end(self, slot: Slot, outcome: Outcome | None, *, sent: bool = True) -> None:
        slot.context = self._context
        held_back = give_back(slot, outcome, sent=sent)
        if held_back != HoldBack():
            self._held_back = held_back
        if slot.limit == self._limit and isinstance(outcome, Failed) and outcome.error_class == ErrorClass.AUTH:
            self._is_rejected = True

    def close(self, own: Slot | None, outcome: Outcome | None, *, sent: bool) -> Outcome | None:
        """The attempt is over, however that came: what it still holds goes back, its own slot too.

        Returns the outcome; a refused task comes back when its limit does, and so does one that met an outage.
        """
        self._closed = True
        if own is not None:
            self._end(own, outcome, sent=sent)
        for limit in list(self._slots):
            self.leave(limit, outcome)
        if not self._is_rejected:
            outcome = outcomes.without_auth(outcome)
        if not isinstance(outcome, Failed):
            return outcome
        refused_s, down_s = self._held_back
        if outcome.error_class == ErrorClass.RATE_LIMITED and refused_s is not None:
            return replace(outcome, delay_s=refused_s)
        if outcome.error_class in _UNWELL and down_s is not None:
            return replace(outcome, delay_s=down_s, provider_down=True)
        return outcome

    def slot(
        self, limit: str | None, units: dict[str, int] | None, timeout_s: float
    ) -> AbstractAsyncContextManager[Slot]:
        return _Block(self, limit, units, timeout_s)


class _Block:
    """For `async with`."""

    def __init__(self, calls: Calls, limit: str | None, units: dict[str, int] | None, timeout_s: float) -> None:
        self._calls = calls
        self._asked = (limit, units, timeout_s)
        self._slot: Slot | None = None

    async def __aenter__(self) -> Slot:
        self._slot = await self._calls.enter(*self._asked)
        return self._slot

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._slot is not None:
            self._calls.leave(self._slot.limit, Completed() if error is None else outcomes.of_error(error))

    def __enter__(self) -> None:
        raise BadInput("This handler is async.", remedy="Write: async with ctx.slot(…).")

    def __exit__(self, *_: object) -> None: ...
