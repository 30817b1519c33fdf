"""Says what a limit does, to its callers and to those who watch."""

from __future__ import annotations

import math
from collections.abc import Mapping

from forebay.clock import steady
from forebay.errors import Busy
from forebay.ids import printable
from forebay.limits.desk import Desk
from forebay.limits.waiting import Waiter
from forebay.model.limit_record import Wait
from forebay.observe import emit, wanted
from forebay.observe.redact import mask_text
from forebay.rules import cooldown, forecast, limit_state
from forebay.rules.forecast import IN_FLIGHT, RAMP
from forebay.rules.window_log import bound_text, in_flight_text
from forebay.rules.window_log import name as window_name

_MOST_ERROR = 300
QUIET_S = 30.0
_CLOSED = {
    limit_state.PAUSED,
    limit_state.RELEARNING,
    cooldown.COOLDOWN,
    cooldown.BREAKER,
    cooldown.QUOTA,
    RAMP,
}
_IN_WORDS = {limit_state.RELEARNING: "calls that its store lost to end (if none runs: `forebay limits reset --all`)"}
_STORE_S = 1.0  # for a store that has not answered
STORE = "store"
TOO_SLOW = "too_slow"


def reason_text(desk: Desk, by: str) -> str:
    """A reason as people read it; windows by what they allow."""
    terms = desk.main.terms
    for bound in terms["windows"] if terms else ():
        if window_name(bound) == by:
            return bound_text(bound)
    for unit_bound in terms["in_flight_units"] if terms else ():
        if limit_state.in_flight_name(unit_bound) == by:
            return in_flight_text(unit_bound)
    return by


def busy(desk: Desk, waiter: Waiter, timeout_s: float) -> Busy:
    line = desk.line
    with line.lock:
        wait = line.wait_of(waiter)
        failure = desk.main.failure
    position = wait["ahead_count"] if wait else 0
    by = tuple(reason_text(desk, each) for each in wait["blocked_by"]) if wait else ()
    eta_s = forecast.eta_s(wait) if wait else None
    if failure is not None or not by:
        by, eta_s = (STORE,), None
    reasons = " and ".join(_IN_WORDS.get(each, each) for each in by)
    if by == (STORE,):
        reasons = "its store" if failure is not None else "its store, which has not answered yet"
    if desk.lacks_processes:
        reasons += ", whose share nobody knows without share_processes"
    when = "nobody can say when" if eta_s is None else f"about {eta_s:.1f} s to go"
    retry_in_s = forecast.retry_in_s(wait, eta_s) if wait else _STORE_S
    then = f"in {retry_in_s:.1f} s" if eta_s is None else "then"
    return Busy(
        f"Limit {desk.limit!r} had no slot within {timeout_s:g} s: it waits for {reasons}, {position} ahead, {when}.",
        remedy=f"Try again {then}, wait longer (timeout_s), or see `forebay limits show`.",
        limit=desk.limit,
        retry_in_s=retry_in_s,
        eta_s=eta_s,
        position=position,
        blocked_by=by,
    )


def standing(desk: Desk) -> dict[str, object]:
    """How the limit stands as far as this process knows: the store's last answer, and what happened here since."""
    line = desk.line
    terms, answer = line.terms, line.answer
    if terms is None or answer is None:
        return {"limit": desk.limit, "in_flight": "", "in_flight_units": (), "windows": ()}
    bound = terms["in_flight"]
    count = line.used - line.in_hand_count
    used = f"{count}/{bound}" if bound >= 0 else str(count)
    windows = tuple(
        f"{used}/{bound_text(each)}" for used, each in zip(answer["window_sums"], terms["windows"], strict=False)
    )
    units = tuple(
        f"{count}/{in_flight_text(each)}"
        for count, each in zip(answer["in_flight_sums"], terms["in_flight_units"], strict=False)
    )
    return {"limit": desk.limit, "in_flight": used, "in_flight_units": units, "windows": windows}


def acquired(desk: Desk, slot_id: str, waited_s: float, attempt: int) -> None:
    desk.vain_count = 0
    if wanted("slot_acquired"):
        emit("slot_acquired", **standing(desk), slot_id=slot_id, wait_s=round(waited_s, 3), attempt=attempt)


def released(desk: Desk, slot_id: str) -> None:
    if wanted("slot_released"):
        emit("slot_released", **standing(desk), slot_id=slot_id)


def timed_out(desk: Desk, error: Busy, waited_s: float) -> None:
    emit(
        "slot_wait_timed_out",
        **standing(desk),
        wait_s=round(waited_s, 3),
        ahead=error.position,
        blocked_by=error.blocked_by,
    )


def cut_off(desk: Desk, count: int) -> None:
    """Report when calls that were cut off come to hold half of a limit."""
    before, desk.cut_off = desk.cut_off, count
    bound = desk.main.terms["in_flight"] if desk.main.terms else -1
    if bound > 0 and 2 * before < bound <= 2 * count:
        emit("cut_off_calls_hold_limit", **standing(desk), cut_off=count, bound=bound)


def too_slow(desk: Desk) -> None:
    """Report a store whose grants come too late for the windows of the limit."""
    line = desk.main
    delay_s, line.too_slow_s = line.too_slow_s, 0.0
    if delay_s > 0 and line.terms is not None and _is_due(desk, TOO_SLOW):
        suppressed = desk.said.get(TOO_SLOW, (0.0, 0))[1]
        desk.said[TOO_SLOW] = (steady(), 0)
        most_s = limit_state.most_fresh(line.terms) / 1000
        emit("store_too_slow", limit=desk.limit, delay_s=round(delay_s, 3), most_s=most_s, suppressed=suppressed)


def throttled(
    desk: Desk, granted_at: int, retry_after_s: float | None, *, code: int, error: str, context: Mapping[str, object]
) -> None:
    """With how long the limit cools down for it: as the provider said, or by the limit's own steps.

    Of calls that were under way together, the first begins the step, and the others say nothing new.
    """
    terms, answer = desk.main.terms, desk.main.answer
    attempt = 1 + (answer["cooldown_level"] if answer else 0)
    wait_s = retry_after_s
    if wait_s is None and terms is not None and granted_at > desk.refused_at:
        wait_s = cooldown.step(terms, attempt) / 1000
    desk.refused_at = max(desk.refused_at, answer["now"] if answer else granted_at)
    fields = {**standing(desk), "code": code, "wait_s": wait_s, "attempt": attempt, "error": _masked(error)}
    emit("rate_limited_retrying", **fields, **{name: context.get(name) for name in ("task_id", "kind", "job_id")})


def waiting(desk: Desk, before: Wait | None, wait: Wait) -> None:
    """The store granted nothing: say what callers of this process wait for, when that is new."""
    desk.vain_count += 1
    if before is not None and before["blocked_by"] == wait["blocked_by"]:
        return
    closed = next((by for by in wait["blocked_by"] if by in _CLOSED), None)
    if closed is not None:
        # Behind it they would also wait for what is in flight, or for a window: that is not what holds them up.
        _tell_closed(desk, closed, wait)
        return
    if IN_FLIGHT in wait["blocked_by"] and desk.line.is_full and _is_due(desk, IN_FLIGHT):
        emit("at_in_flight_capacity", **_waiting(desk, IN_FLIGHT, wait))
    for by in wait["blocked_by"]:
        if by.startswith(f"{IN_FLIGHT}:") and _is_due(desk, by):
            emit("at_in_flight_capacity", **_waiting(desk, by, wait))
        elif "/" in by and _is_due(desk, by):
            emit("rate_limit_reached", window=reason_text(desk, by), **_waiting(desk, by, wait))


def _tell_closed(desk: Desk, reason: str, wait: Wait) -> None:
    if not _is_due(desk, reason):
        return
    fields = _waiting(desk, reason, wait)
    match reason:
        case limit_state.PAUSED:
            emit("limit_paused", **fields)
        case cooldown.COOLDOWN:
            emit("limit_cooling_down", **fields)
        case cooldown.BREAKER:
            emit("limit_breaker_open", **fields)
        case cooldown.QUOTA:
            emit("limit_parked", **fields)
        case limit_state.RELEARNING:
            emit("limit_relearning", **fields)
        case _:
            emit("limit_ramping_up", **fields)


def _is_due(desk: Desk, reason: str) -> bool:
    """Whether it was not said for a while; else it is counted."""
    said_at, suppressed = desk.said.get(reason, (-math.inf, 0))
    if steady() - said_at >= QUIET_S:
        return True
    desk.said[reason] = (said_at, suppressed + 1)
    return False


def _waiting(desk: Desk, reason: str, wait: Wait) -> dict[str, object]:
    suppressed = desk.said.get(reason, (0.0, 0))[1]
    desk.said[reason] = (steady(), 0)
    line = desk.main
    if line.answer is not None and line.terms is not None:
        wait = forecast.wait_behind(wait, line.answer, line.terms, 0)
    eta_s = forecast.eta_s(wait)
    return {
        **standing(desk),
        "wait_s": None if eta_s is None else round(eta_s, 3),
        "ahead": wait["ahead_count"],
        "attempt": desk.vain_count,
        "suppressed": suppressed,
    }


def _masked(text: str) -> str:
    """An error's text as events may show it: without secrets, in one line, not too long."""
    return printable(mask_text(text))[:_MOST_ERROR]
