"""How an attempt ended, as the engine saw it; the rules decide what follows from it."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.errors import BadInput
from forebay.model.call_outcome import CallOutcome
from forebay.model.exchange import Usage
from forebay.model.job import Event
from forebay.model.names import check_duration, check_instant, check_name
from forebay.model.payload import check_json
from forebay.model.task import NewTask, WaitReason


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    usage: tuple[Usage, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed(_Ended):
    """The handler returned; its result is stored already, as JSON text or as a blob."""

    result_json: str | None = None
    result_blob: str | None = None
    follow_ups: tuple[NewTask, ...] = ()

    def __post_init__(self) -> None:
        if self.result_json is not None:
            check_json(self.result_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(_Ended):
    """The handler failed; `permanent` rules out a retry that the class would allow.

    `call` is what became of the call to the provider, where the exception showed it. `provider_down`: the breaker of
    its limit is open, or opens with this failure.
    """

    error_class: str
    text: str
    traceback: str | None = None
    permanent: bool = False
    delay_s: float | None = None
    call: CallOutcome | None = None
    provider_down: bool = False

    def __post_init__(self) -> None:
        if self.delay_s is not None:
            check_duration("delay_s", self.delay_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescheduled(_Ended):
    """Not now: after a delay, or from an instant on; an error class only if an error was the reason."""

    delay_s: float | None = None
    until: float | None = None
    error_class: str | None = None
    text: str | None = None
    wait_reason: WaitReason = WaitReason.RESCHEDULE

    def __post_init__(self) -> None:
        if self.error_class is not None:
            check_name("error class", self.error_class)
        if (self.delay_s is None) == (self.until is None):
            raise BadInput("A reschedule takes either delay_s or until.", remedy="Give exactly one of them.")
        if self.delay_s is not None:
            check_duration("delay_s", self.delay_s)
        if self.until is not None:
            check_instant("until", self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Canceled(_Ended):
    """The attempt was stopped because somebody asked for it."""

    text: str = "Canceled"


Outcome = Completed | Failed | Rescheduled | Canceled
