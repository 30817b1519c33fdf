"""Says what a limit does, to its callers and to those who watch."""

from __future__ import annotations

from forebay.errors import Busy
from forebay.limits.desk import Desk
from forebay.limits.fitting import bound_text
from forebay.limits.waiting import Waiter
from forebay.model.limit_record import Wait
from forebay.observe import emit
from forebay.rules.admission import FOREVER, IN_FLIGHT
from forebay.rules.window_log import name as window_name

_FAR_S = FOREVER / 2000


def reason_text(desk: Desk, by: str) -> str:
    """A reason as people read it; windows by what they allow."""
    terms = desk.main.terms
    for bound in terms["windows"] if terms else ():
        if window_name(bound) == by:
            return bound_text(bound)
    return by


def busy(desk: Desk, waiter: Waiter, timeout_s: float) -> Busy:
    line = desk.line
    with line.lock:
        wait = line.wait
        position = line.ahead_of(waiter)
        failure = desk.main.failure
    by = tuple(reason_text(desk, each) for each in wait["by"]) if wait else ()
    eta_s: float | None = wait["eta"] / 1000 if wait else None
    if failure is not None:
        by, eta_s = ("store",), None
    if eta_s is not None and eta_s > _FAR_S:
        eta_s = None
    retry_in_s = wait["again"] / 1000 if wait else 1.0
    reasons = " and ".join(by) or "its store"
    when = "nobody can say when" if eta_s is None else f"about {eta_s:.1f} s to go"
    return Busy(
        f"Limit {desk.limit!r} had no slot within {timeout_s:g} s: it waits for {reasons}, {position} ahead, {when}.",
        remedy="Try again then, wait longer (timeout_s), or see `forebay limits show`.",
        limit=desk.limit,
        retry_in_s=retry_in_s if eta_s is None else max(retry_in_s, eta_s),
        eta_s=eta_s,
        position=position,
        blocked_by=by,
    )


def acquired(desk: Desk, waited_s: float) -> None:
    emit("slot_acquired", limit=desk.limit, wait_s=round(waited_s, 3), in_flight=desk.line.open_count)


def released(desk: Desk) -> None:
    emit("slot_released", limit=desk.limit, in_flight=desk.line.open_count)


def throttled(desk: Desk, retry_after_s: float | None) -> None:
    emit("rate_limited_retrying", limit=desk.limit, code=429, wait_s=retry_after_s)


def blocked(desk: Desk, wait: Wait) -> None:
    """Said when callers of this process begin to wait for something else than before."""
    for by in wait["by"]:
        fields = {"limit": desk.limit, "wait_s": round(wait["eta"] / 1000, 3), "ahead": wait["ahead"]}
        if by == IN_FLIGHT:
            emit("at_in_flight_capacity", **fields)
        elif "/" in by:
            emit("rate_limit_reached", window=reason_text(desk, by), **fields)
