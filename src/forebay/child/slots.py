"""The slots of a blocking handler: its worker, at the other end of the socket, takes and holds them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from forebay.clock import steady
from forebay.engine import outcomes, report
from forebay.engine.wire import Message
from forebay.errors import BadInput, Conflict
from forebay.limits.slot import Headers, Hint, check_status
from forebay.model.call_outcome import CallOutcome
from forebay.model.outcome import Completed
from forebay.rules import retry_after
from forebay.rules.call_outcome import judge_answer, judge_exception
from forebay.rules.exception_facts import describe

Ask = Callable[[list[Any]], Any]
Say = Callable[[Message], None]


class ChildCalls:
    """Asks on behalf of one attempt; `ask` waits for the worker's answer, `say` does not."""

    def __init__(self, ask: Ask, say: Say) -> None:
        self.ask = ask
        self.say = say
        self.waited_s = 0.0

    def describe(self, text: str) -> None:  # noqa: ARG002 - of the protocol
        raise BadInput("A plain handler cannot describe its slots.", remedy="Make it async, or leave this out.")

    def slot(self, limit: str | None, units: dict[str, int] | None, timeout_s: float) -> ChildSlot:
        return ChildSlot(self, limit, units, timeout_s)


class ChildSlot:
    """For `with`; says the same to its limit as a slot that is held here."""

    def __init__(self, calls: ChildCalls, limit: str | None, units: dict[str, int] | None, timeout_s: float) -> None:
        self._calls = calls
        self._asked = [limit, units, timeout_s]
        self._limit: str | None = None
        self._ended = False

    @property
    def limit(self) -> str:
        return self._checked()

    @property
    def held(self) -> bool:
        return self._limit is not None and not self._ended

    def __enter__(self) -> Self:
        if self._limit is not None:
            raise Conflict("This slot was used already.", remedy="Take a new one for each call: ctx.slot(…).")
        began_at = steady()
        try:
            self._limit = self._calls.ask(["slot", *self._asked])
        finally:
            self._calls.waited_s += steady() - began_at
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.held:
            outcome = Completed() if error is None else outcomes.of_error(error)
            self._calls.say({"left": [self._limit, report.pack(outcome)]})
            self._ended = True

    async def __aenter__(self) -> None:
        raise BadInput("This handler is a plain function.", remedy="Write: with ctx.slot(…).")

    async def __aexit__(self, *_: object) -> None: ...

    def start(self) -> None:
        """Right before the bytes are sent: makes sure that the slot still counts where the call will."""
        self._calls.ask(["start", self._checked()])

    def answered(self, status: int, headers: Headers = None, body: object = None) -> CallOutcome:
        """Tell the limit what the provider answered, and return what that means."""
        outcome = judge_answer(check_status(status), headers, body, now=time.time())
        self._tell_ended(outcome, f"the provider answered {outcome.status}")
        return outcome

    def raised(self, error: BaseException) -> CallOutcome:
        """Tell the limit how the call ended by the exception of any HTTP client, and return what that means."""
        outcome = judge_exception(error, now=time.time())
        self._tell_ended(outcome, describe(error))
        return outcome

    def _tell_ended(self, outcome: CallOutcome, text: str) -> None:
        self._calls.ask(["ended", self._checked(), asdict(outcome), text])

    def throttled(self, retry_after_s: Hint = None) -> None:
        self._tell("throttled", retry_after.read(retry_after_s, now=time.time()))

    def quota_exhausted(self, retry_in_s: float) -> None:
        self._tell("quota_exhausted", retry_in_s)

    def failed(self) -> None:
        self._tell("failed")

    def unsent(self) -> None:
        self._tell("unsent")

    def settle(self, units: dict[str, int]) -> None:
        self._tell("settle", units)

    def abandoned(self) -> None:
        self._tell("abandoned")

    def _tell(self, what: str, *arguments: object) -> None:
        self._calls.ask(["tell", self._checked(), what, *arguments])

    def _checked(self) -> str:
        if self._limit is None or self._ended:
            raise Conflict("This slot is not held.", remedy="Say it inside the block.")
        return self._limit
