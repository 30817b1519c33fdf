"""Turns what a handler raised into an outcome."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace

from forebay.engine.signals import Permanent, Reschedule, Retry, Stopped
from forebay.errors import BadInput, BlobMissing, Busy, ResultCorrupt, StoreError
from forebay.model.exchange import Usage
from forebay.model.outcome import Canceled, Failed, Outcome, Rescheduled
from forebay.observe.redact import mask_hidden
from forebay.rules import verdict
from forebay.rules.call_outcome import judge_exception
from forebay.rules.exception_facts import describe
from forebay.rules.verdict import ErrorClass

_LEAST_S = 0.1
_MOST_S = 5.0
_MOST_HINT_S = 600.0  # as a limit's longest cool-down
_FORBIDDEN = 403
_HINTED = {ErrorClass.RATE_LIMITED, ErrorClass.QUOTA_EXHAUSTED, ErrorClass.SERVICE_UNAVAILABLE}


def of_error(error: BaseException) -> Outcome:
    """What is stored of it has no hidden value in it, whoever raised it."""
    outcome = _of_error(error)
    match outcome:
        case Failed():
            trace = None if outcome.traceback is None else mask_hidden(outcome.traceback)
            return replace(outcome, text=mask_hidden(outcome.text), traceback=trace)
        case Rescheduled(text=str(text)):
            return replace(outcome, text=mask_hidden(text))
        case _:
            return outcome


def _of_error(error: BaseException) -> Outcome:  # noqa: PLR0911 - one for each
    match error:
        case Reschedule():
            return Rescheduled(delay_s=error.delay_s, until=error.until, text=error.text or None)
        case Retry():
            return Failed(
                error_class=error.error_class,
                text=error.text,
                delay_s=error.delay_s,
                traceback=_trace(error),
                call=error.call,
            )
        case Permanent():
            return Failed(error_class=error.error_class, text=error.text, permanent=True, traceback=_trace(error))
        case Stopped():
            return Canceled()
        case Busy():
            return Rescheduled(delay_s=_again_in_s(error), text=str(error))
        case BadInput():
            # What the handler handed to us was wrong: running it again would hand in the same.
            return Failed(error_class=ErrorClass.BUG, text=str(error), permanent=True, traceback=_trace(error))
        case StoreError():
            # Its own text names addresses and folders, and is in the traceback, which is for operators.
            text = f"{type(error).__name__}: {error.public}"
            return Failed(error_class=verdict.classify_exception(error), text=text, traceback=_trace(error))
        case BlobMissing() | ResultCorrupt():
            return replace(_of_foreign(error), text=f"{type(error).__name__}: {error.public}")
        case _:
            return _of_foreign(error)


def _of_foreign(error: BaseException) -> Failed:
    """What an exception of a library's or of the handler's own means, by what it shows of the call that failed."""
    call = judge_exception(error, now=time.time())
    error_class = verdict.parse(call.error_class or ErrorClass.BUG)
    if call.status == _FORBIDDEN:
        error_class = ErrorClass.REFUSED  # mostly of this one thing, and not of the account
    delay_s = call.retry_after_s if error_class in _HINTED else None
    if delay_s is not None and error_class is not ErrorClass.QUOTA_EXHAUSTED:
        delay_s = min(delay_s, _MOST_HINT_S)
    return Failed(error_class=error_class, text=describe(error), traceback=_trace(error), delay_s=delay_s, call=call)


def without_auth(outcome: Outcome | None) -> Outcome | None:
    """Let a 401 of some library fail its own task only: no limit stands for the account that it is about."""
    if isinstance(outcome, Failed) and outcome.call is not None and outcome.error_class == ErrorClass.AUTH:
        return replace(outcome, error_class=ErrorClass.REFUSED)
    return outcome


def _again_in_s(error: Busy) -> float:
    """When a window or a cool-down is over, is known; how long others take for their calls is a guess."""
    return max(_LEAST_S, min(_MOST_S, error.retry_in_s) if "in_flight" in error.blocked_by else error.retry_in_s)


def timed_out(timeout_s: float) -> Failed:
    return Failed(error_class=ErrorClass.TIMEOUT, text=f"It ran longer than {timeout_s:g} s")


def past_deadline() -> Failed:
    return Failed(error_class=ErrorClass.DEADLINE, text="Its deadline passed before it was done")


def crashed(code: int | None, how: str) -> Failed:
    if code == -signal.SIGXCPU:
        return Failed(error_class=ErrorClass.TIMEOUT, text="It used more CPU time than handler_cpu_s allows")
    return Failed(error_class=ErrorClass.HANDLER_CRASHED, text=f"Its process ended: {how}")


def with_usage(outcome: Outcome, usage: Sequence[Usage]) -> Outcome:
    return replace(outcome, usage=tuple(usage))


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - same
        return type(error).__name__
