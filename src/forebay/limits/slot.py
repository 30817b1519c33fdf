"""A slot: leave to make one call, taken from all bounds of a limit at once and given back when the block ends."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Generator, Iterable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from forebay.clock import steady
from forebay.errors import AlreadyHeld, BadInput, Conflict, NeverFits
from forebay.ids import shown
from forebay.limits import telling
from forebay.limits.call import Call
from forebay.limits.desk import Desk
from forebay.limits.fitting import misfit
from forebay.limits.open_slots import OpenSlots
from forebay.limits.returns import PATIENCE_S, in_loop
from forebay.limits.waiting import Result, Waiter, refuse_reentry
from forebay.model.limit import check_units
from forebay.observe import emit
from forebay.rules import retry_after
from forebay.rules.admission import CUT_OFF, TIMED_OUT, UNREACHED, UNSENT
from forebay.rules.call_outcome import CallOutcome, judge_answer, judge_exception
from forebay.rules.cooldown import COOLDOWN, QUOTA, step
from forebay.rules.exception_facts import describe

if TYPE_CHECKING:
    import asyncio

    from forebay.limits.line import Line
    from forebay.limits.pump import Pump

_JITTER = 200  # of a thousand, upward only
_DAY_S = 86_400.0
_MAX_PARK_S = 400 * _DAY_S
_ONCE_S = 5.0  # to hear one answer
_TOO_MANY = 429
QUOTA_PARK_S = 3600.0
"""Until a quota that does not say when it is there again is asked once more."""

_MAIN = threading.main_thread().ident

_numbers = itertools.count(1)

Steps = Generator[Waiter, Result, Call]
Headers = Mapping[str, str] | Iterable[tuple[str, str]] | None
Hint = float | str | timedelta | None

_in_blocks = OpenSlots(weak=True)


class Slot:
    """`with` and `async with` take it; it may be used once. Say what became of the call if an exception does not.

    Entering the block is the start of the call. Code that prepares for longer than the limit's `start_within_s`
    calls `start()` (or `await astart()`) again right before it sends.
    """

    def __init__(
        self,
        desk: Desk,
        pump: Pump,
        *,
        keeper: object = None,
        units: dict[str, int],
        timeout_s: float,
        key: str = "",
        label: str = "",
        call: Call | None = None,
        enforce_timeout: bool = False,
    ) -> None:
        self.id = f"{desk.main.sid}-{next(_numbers)}"
        """Names the slot in events."""
        self._call = call
        self._entered = False
        self._granted_at = steady()
        self._enforces = enforce_timeout
        self._timeout: asyncio.Timeout | None = None
        self._ended = False
        self._desk = desk
        self._pump = pump
        self._keeper = keeper  # which ends its threads when nobody has it any more
        self._units = units
        self._timeout_s = timeout_s
        self._key = key
        self._label = label
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._outcome: str | None = None
        self._is_cut_off = False
        self._settled: dict[str, int] | None = None
        self.waited_s = 0.0
        self.context: dict[str, object] = {}
        """Whose call it is, for the events that tell of it."""

    @property
    def limit(self) -> str:
        return self._desk.limit

    def misfit(self) -> NeverFits | None:
        """Return what a call of this slot's units lacks, for a slot that was taken before its call was known."""
        line = self._desk.line
        return None if line.terms is None else misfit(self.limit, line.terms, self._units)

    @property
    def held(self) -> bool:
        return self._call is not None and not self._ended

    @property
    def remaining_s(self) -> float:
        """How long the call may still take by its limit's `call_timeout_s`: the timeout for your client."""
        terms = self._checked().line.terms
        return 0.0 if terms is None else max(0.0, self._granted_at + terms["call_timeout_ms"] / 1000 - steady())

    def __enter__(self) -> Self:
        if self._enforces:
            raise BadInput(
                "A plain `with` cannot end a call that takes too long.",
                remedy="Write `async with`, or give slot.remaining_s to your client as its timeout.",
            )
        if self._entered or not self.held:
            self._refuse_nesting()
            self.take()
        return self._inside()

    async def __aenter__(self) -> Self:
        if self._entered or not self.held:
            self._refuse_nesting()
            await self.atake()
        self._inside()
        if self._enforces:
            import asyncio  # noqa: PLC0415 - whoever awaits has loaded it

            self._timeout = asyncio.timeout(self.remaining_s)
            await self._timeout.__aenter__()
        return self

    def _inside(self) -> Self:
        self._entered = True
        _in_blocks.add(self)
        return self

    def take(self) -> Self:
        """Wait for the slot without a block; give it back with `release()`."""
        if not self._take_in_hand():
            self._drive(self._acquire())
        return self

    async def atake(self) -> Self:
        if self._take_in_hand():
            return self
        import asyncio  # noqa: PLC0415 - whoever awaits has loaded it

        self._loop = asyncio.get_running_loop()
        await self._adrive(self._acquire())
        return self

    def _take_in_hand(self) -> bool:
        """Take a slot that this process was granted already, if there is one."""
        line = self._desk.line
        if self._call is not None or not line.in_hand_count:
            return False
        refuse_reentry(line.lock)
        with line.lock:
            self._call = line.take_in_hand(self._key, self._units, self._label)
        if self._call is None:
            return False
        self._granted_at = steady()
        telling.acquired(self._desk, self.id, 0.0, 1)
        return True

    def _refuse_nesting(self) -> None:
        """A caller that holds a slot and waits for another of the same limit may wait for itself."""
        terms = self._desk.main.terms
        if self._timeout_s == 0 or terms is None or terms["in_flight"] < 0:
            return
        if any(each._desk is self._desk for each in _in_blocks.mine()):  # noqa: SLF001 - its own kind
            raise AlreadyHeld(
                f"This thread or task holds a slot of limit {self.limit!r} already, and could wait for itself.",
                remedy="Make one call in each block, or take the next one in another thread or task; "
                "timeout_s=0 and try_slot do not wait.",
            )

    def start(self) -> None:
        """Right before the bytes are sent: makes sure that the slot still counts where the call will."""
        if self._is_late():
            self._drive(self._restart())

    async def astart(self) -> None:
        if self._is_late():
            import asyncio  # noqa: PLC0415 - whoever awaits has loaded it

            self._loop = asyncio.get_running_loop()
            if self._timeout is not None:
                self._timeout.reschedule(None)  # waiting does not count
            await self._adrive(self._restart())
            if self._timeout is not None:
                self._timeout.reschedule(self._loop.time() + self.remaining_s)

    def _drive(self, steps: Steps) -> None:
        """Run the steps on this thread, which may wait."""
        try:
            waiter = next(steps)
            while True:
                if threading.get_ident() == _MAIN:
                    # Handlers of signals run here, between any two lines, and what they raise would leave the
                    # store's affairs half done.
                    self._pump.poke(self._desk)
                else:
                    self._pump.drive(self._desk, waiter)
                waiter.wait(self._left_s())
                waiter = steps.send(waiter.result)
        except StopIteration as stop:
            self._call = stop.value
            self._granted_at = steady()
        finally:
            steps.close()

    async def _adrive(self, steps: Steps) -> None:
        """Run the steps in an event loop, which must not wait; a thread asks the store, unless that answers at once."""
        try:
            waiter = next(steps)
            while True:
                if self._desk.line.store.instant:
                    self._pump.drive(self._desk, waiter)
                else:
                    self._pump.poke(self._desk)
                await waiter.await_(self._left_s())
                waiter = steps.send(waiter.result)
        except StopIteration as stop:
            self._call = stop.value
            self._granted_at = steady()
        finally:
            steps.close()

    def _left_s(self) -> float:
        return self._ends_at - steady()

    def _acquire(self) -> Steps:
        if self._call is not None:
            raise Conflict("This slot was used already.", remedy="Take a new one for each call: limiter.slot(…).")
        began_at = steady()
        self._ends_at = began_at + (self._timeout_s or _ONCE_S)
        call = yield from self._stand(front=False)
        attempt = 1
        while self._too_old(call):
            call = yield from self._renewed(call)
            attempt += 1
        self.waited_s = steady() - began_at
        telling.acquired(self._desk, self.id, self.waited_s, attempt)
        return call

    def _restart(self) -> Steps:
        assert self._call is not None  # noqa: S101 - for the type checker: it is late
        self._ends_at = steady() + (self._timeout_s or _ONCE_S)
        emit("late_start", limit=self.limit, age_s=round(self._call.line.age_s(self._call, steady()), 3))
        call = yield from self._renewed(self._call)
        while self._too_old(call):
            call = yield from self._renewed(call)
        return call

    def _stand(self, *, front: bool) -> Steps:
        """In line until there is a grant; what ends this early leaves no trace, also if the grant came just then."""
        waiter = Waiter(self._loop, once=self._timeout_s == 0)
        line = self._desk.line
        refuse_reentry(line.lock)
        with line.lock:
            if (refusal := self._desk.refusal()) is not None:
                raise refusal
            line.join(waiter, self._units, key=self._key, label=self._label, front=front)
        try:
            result = yield waiter
            if result is None:
                self._refuse(waiter)
        except BaseException:
            self._withdraw(waiter)
            raise
        if isinstance(result, Exception):
            raise result
        assert result is not None  # noqa: S101 - for the type checker: refused above
        return result

    def _refuse(self, waiter: Waiter) -> NoReturn:
        """The time is over."""
        error = telling.busy(self._desk, waiter, self._timeout_s)
        if self._timeout_s > 0:
            telling.timed_out(self._desk, error, self._timeout_s)
        raise error

    def _withdraw(self, waiter: Waiter) -> None:
        for line in self._desk.lines:
            with line.lock:
                line.leave(waiter)
        if isinstance(waiter.result, Call):
            with waiter.result.line.lock:
                waiter.result.line.finish(waiter.result.id, "unsent")
        self._pump.poke(self._desk)

    def _renewed(self, call: Call) -> Steps:
        """A grant that was used late counts from now on; one that is too old for that asks again, before all others."""
        line = call.line
        waiter = Waiter(self._loop)
        with line.lock:
            line.restart(waiter, call.id)
        try:
            result = yield waiter
        except BaseException:
            self._withdraw(waiter)
            self._put_back(call)
            raise
        if isinstance(result, Call):
            return result
        with line.lock:
            line.leave(waiter)
        self._put_back(call)
        if isinstance(result, Exception):
            self._ended = True
            raise result
        return (yield from self._stand(front=True))

    def _put_back(self, call: Call) -> None:
        """Give back a grant that was never used, and go on."""
        self._finish(call, UNSENT)
        self._poke_if_due(call.line)

    def _too_old(self, call: Call) -> bool:
        return steady() >= self._fresh_until(call)

    def _fresh_until(self, call: Call) -> float:
        with call.line.lock:
            return call.line.fresh_until(call)

    @property
    def fresh_until(self) -> float:
        """Until when, on the clock that nobody sets, the call may begin without `start` asking anew."""
        return self._fresh_until(self._checked())

    def _is_late(self) -> bool:
        if self._call is None or self._ended:
            raise Conflict("This slot is not held.", remedy="Call start() inside the block.")
        return self._too_old(self._call)

    def answered(self, status: int, headers: Headers = None, body: object = None) -> CallOutcome:
        """Tell the limit what the provider answered, and return what that means: see `CallOutcome.kind`.

        `headers` may be any library's; `body` is bytes, text or parsed JSON, where it was read.
        """
        outcome = judge_answer(check_status(status), headers, body, now=time.time())
        self.ended(outcome, f"the provider answered {outcome.status}")
        return outcome

    def raised(self, error: BaseException) -> CallOutcome:
        """Tell the limit how the call ended by the exception of any HTTP client or SDK, and return what that means.

        An exception that leaves the block is judged like this by itself.
        """
        outcome = judge_exception(error, now=time.time())
        self.ended(outcome, describe(error))
        return outcome

    def ended(self, outcome: CallOutcome, text: str = "") -> None:
        """Tell the limit what became of the call, as judged; `text` is shown with a refusal."""
        match outcome.kind:
            case "throttled":
                self._throttle(outcome.retry_after_s, outcome.status or _TOO_MANY, text)
            case "quota":
                self.quota_exhausted(outcome.retry_after_s or QUOTA_PARK_S)
            case "unsent":
                self._tell("unreached" if outcome.blames_provider else "unsent")
            case "ok":
                self._tell("ok")
            case _:
                self._tell("failed" if outcome.blames_provider else "", cut_off=outcome.kind == "cut_off")

    def throttled(self, retry_after_s: Hint = None) -> None:
        """The provider refused the call with "not now" (429): a cool-down for everybody who shares the limit.

        `retry_after_s` may be the header `Retry-After` as it is. 0 counts as no hint, and so does what makes no sense.
        """
        # "Not at all", or a date that our clock has passed, is not advice after a refusal.
        self._throttle(retry_after.read(retry_after_s, now=time.time()) or None, _TOO_MANY, "")

    def _throttle(self, hint_s: float | None, status: int, text: str) -> None:
        wait_s = -1.0 if hint_s is None else min(hint_s, _DAY_S)  # the limit's own longest is less
        call = self._hint(COOLDOWN, wait_s, random.randrange(_JITTER + 1))  # noqa: S311 - spreads workers
        telling.throttled(self._desk, call.at, hint_s, code=status, error=text, context=self.context)

    def outage_s(self) -> float | None:
        """How long everybody is held back once this call has failed, too; None while the breaker stays closed.

        As far as this process knows: after failures in a row of its own, or after a cool-down that no call has ended.
        """
        terms, answer = self._desk.main.terms, self._desk.main.answer
        if terms is None or answer is None or terms["breaker_after"] == 0:
            return None
        opens = answer["cooldown_level"] > 0 or self._desk.failed_in_row + 1 >= terms["breaker_after"]
        return self.backoff_s(None) if opens else None

    def backoff_s(self, hint_s: float | None) -> float | None:
        """How long a refusal with this hint, or without one, would hold everybody back, as far as it is known here."""
        terms, answer = self._desk.main.terms, self._desk.main.answer
        if terms is None or answer is None:
            return hint_s
        longest_s = terms["max_cooldown_ms"] / 1000
        return min(longest_s, step(terms, answer["cooldown_level"] + 1) / 1000 if hint_s is None else hint_s)

    def quota_exhausted(self, retry_in_s: float) -> None:
        """A daily or monthly quota is used up: the limit is parked until then, for everybody."""
        self._hint(QUOTA, _seconds("retry_in_s", retry_in_s, most=_MAX_PARK_S), 0)
        emit("quota_exhausted", limit=self.limit, retry_in_s=retry_in_s)

    def _hint(self, kind: str, wait_s: float, jitter: int) -> Call:
        call = self._tell("")
        with call.line.lock:
            call.line.refused(
                {
                    "kind": kind,
                    "granted_at": call.at,
                    "wait_ms": int(wait_s * 1000) if wait_s >= 0 else -1,
                    "jitter_permille": jitter,
                }
            )
        self._pump.poke(self._desk)
        return call

    def failed(self) -> None:
        """The provider is unwell (5xx, no connection); a few of these in a row pause the limit for everybody."""
        self._tell("failed")

    def abandoned(self) -> None:
        """Nobody can tell what became of the call: it speaks neither for the provider nor against it."""
        self._tell("")

    def cut_off(self) -> None:
        """Stop waiting for the answer, and let go: the provider may work on, so the slot counts until it cannot.

        That is the limit's `call_timeout_s` after it began, or at once with on_disconnect="stops".
        """
        call = self._checked()
        self._end_call(call, TIMED_OUT if self._outcome == "failed" else CUT_OFF)

    @property
    def told(self) -> bool:
        """Whether it was said already what became of the call."""
        return self._outcome is not None

    def unsent(self) -> None:
        """Nothing was sent after all: the slot's units are given back, too."""
        self._tell("unsent")

    def settle(self, units: dict[str, int]) -> None:
        """What the call really took, where only its answer tells."""
        self._checked()
        if not units:
            raise BadInput("Nothing is said of what the call took.", remedy='Give its units, such as {"tokens": 812}.')
        checked = check_units(units)
        terms = self._desk.main.terms
        if (
            terms is not None
            and (unknown := misfit(self.limit, terms, dict.fromkeys(checked, 0), partial=True)) is not None
        ):
            raise unknown
        self._settled = {unit: count for unit, count in checked.items() if unit in units}

    def _tell(self, outcome: str, *, cut_off: bool = False) -> Call:
        call = self._checked()
        self._outcome, self._is_cut_off = outcome, cut_off
        return call

    def _checked(self) -> Call:
        if self._call is None or self._ended:
            raise Conflict("This slot is not held.", remedy="Say it inside the block.")
        return self._call

    def release(self) -> None:
        """Give it back. Twice is harmless.

        The store knows of it, or it is on its way there, when this returns, if it was the last call of this process;
        others follow a moment later. In an event loop nothing is waited for.
        """
        self._end(None, may_wait=not in_loop())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end(error)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timeout is not None:
            try:
                await self._timeout.__aexit__(kind, error, traceback)
            except TimeoutError as too_slow:
                await self._aend(too_slow)
                raise
        await self._aend(error)

    async def _aend(self, error: BaseException | None) -> None:
        import asyncio  # noqa: PLC0415 - whoever awaits has loaded it

        if self._is_held():
            waiter = self._give_back(self._checked(), self._outcome_of(error), loop=asyncio.get_running_loop())
            if waiter is not None:
                await waiter.await_(PATIENCE_S)

    def _end(self, error: BaseException | None, *, may_wait: bool = True) -> None:
        if self._is_held():
            self._end_call(self._checked(), self._outcome_of(error), may_wait=may_wait)

    def _is_held(self) -> bool:
        return self.held and self._pid == os.getpid()  # a forked child holds nothing of its parent's

    def _outcome_of(self, error: BaseException | None) -> str:
        """What leaving the block means for the call, unless it was said inside."""
        if self._outcome is None and error is not None:
            self.raised(error)
        if self._is_cut_off and self._settled is None:  # which is said of an answer
            return TIMED_OUT if self._outcome == "failed" else CUT_OFF
        return "ok" if self._outcome is None else self._outcome

    def _end_call(self, call: Call, outcome: str, *, may_wait: bool = True) -> None:
        waiter = self._give_back(call, outcome, may_wait=may_wait)
        if waiter is not None:
            waiter.wait(PATIENCE_S)

    def _note(self, outcome: str) -> None:
        if outcome == "ok":
            self._desk.failed_in_row = 0
        elif outcome in {"failed", UNREACHED, TIMED_OUT}:
            self._desk.failed_in_row += 1

    def _give_back(
        self, call: Call, outcome: str, *, loop: asyncio.AbstractEventLoop | None = None, may_wait: bool = True
    ) -> Waiter | None:
        """Return what to wait for before the block is left, if anything."""
        self._note(outcome)
        self._finish(call, outcome)
        self._ended = True
        telling.released(self._desk, self.id)
        waiter = self._pump.returns.give_back(self._desk, call.line, loop=loop, may_wait=may_wait)
        self._poke_if_due(call.line)
        return waiter

    def _finish(self, call: Call, outcome: str) -> None:
        with call.line.lock:
            call.line.finish(call.id, outcome, self._settled)

    def _poke_if_due(self, line: Line) -> None:
        with line.lock:
            due_at = line.due_at(steady())
        if due_at is not None:
            self._pump.poke_by(self._desk, due_at)


def _seconds(what: str, value: object, *, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise BadInput(
            f"{what} is {shown(value)}.",
            remedy=f"Give seconds from 0 to {most:.0f}; a quota that is used up for longer is quota_exhausted(…).",
        )
    return float(value)


def check_status(status: object) -> int:
    if isinstance(status, bool) or not isinstance(status, int):
        raise BadInput(f"status is {shown(status)}.", remedy="Give the number of the HTTP status, such as 429.")
    return status
