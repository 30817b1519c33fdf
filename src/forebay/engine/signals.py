"""What a handler raises to say how its attempt is to end."""

from __future__ import annotations

from datetime import datetime

from forebay.errors import BadInput
from forebay.model.call_outcome import CallOutcome
from forebay.model.names import check_duration, check_instant
from forebay.rules import verdict
from forebay.rules.verdict import ErrorClass


class Signal(Exception):
    """Base of the three; anything else that a handler raises is a failure, by the class of its error.

    `call` is what became of the call to the provider, where whoever raised it knows more than the class says.
    """

    call: CallOutcome | None = None


class Reschedule(Signal):
    """Not now: a durable sleep that frees the worker and costs no retry."""

    def __init__(self, text: str = "", *, delay_s: float | None = None, until: datetime | float | None = None) -> None:
        super().__init__(text or "rescheduled")
        if (delay_s is None) == (until is None):
            raise BadInput("Reschedule takes either delay_s or until.", remedy="Give exactly one of them.")
        self.text = text
        self.delay_s = None if delay_s is None else check_duration("delay_s", delay_s)
        self.until = None if until is None else instant("until", until)


class Retry(Signal):
    """It failed, and may be tried again: costs one of max_retries."""

    def __init__(
        self, text: str, *, delay_s: float | None = None, error_class: str = ErrorClass.INTERNAL_ERROR
    ) -> None:
        super().__init__(text)
        self.text = text
        self.delay_s = None if delay_s is None else check_duration("delay_s", delay_s)
        self.error_class = verdict.parse(error_class)


class Permanent(Signal):
    """It failed, and would fail again: no retry."""

    def __init__(self, text: str, *, error_class: str = ErrorClass.REFUSED) -> None:
        super().__init__(text)
        self.text = text
        self.error_class = verdict.parse(error_class)


class Stopped(BaseException):
    """Raised at a checkpoint of a handler that is to stop; no `except Exception` may swallow it."""


def instant(what: str, when: datetime | float) -> float:
    """UTC seconds; a datetime must know its time zone, and what lies before 1970 is simply past."""
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise BadInput(f"{what}={when!s} has no time zone.", remedy="Use datetime.now(UTC) or another aware time.")
        when = max(0.0, when.timestamp())
    return check_instant(what, when)
