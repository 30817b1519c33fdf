"""Says what a limit does, to its callers and to those who watch."""

from __future__ import annotations

from forebay.errors import Busy
from forebay.limits.desk import Desk
from forebay.limits.waiting import Waiter
from forebay.model.limit_record import Wait
from forebay.observe import emit, wanted
from forebay.rules import cooldown
from forebay.rules.forecast import IN_FLIGHT
from forebay.rules.limit_state import FOREVER
from forebay.rules.window_log import bound_text
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
        wait = line.wait_of(waiter)
        failure = desk.main.failure
    position = wait["ahead"] if wait else 0
    by = tuple(reason_text(desk, each) for each in wait["by"]) if wait else ()
    eta_s: float | None = wait["eta"] / 1000 if wait else None
    if failure is not None:
        by, eta_s = ("store",), None
    if eta_s is not None and eta_s > _FAR_S:
        eta_s = None
    retry_in_s = wait["again"] / 1000 if wait else 1.0
    reasons = " and ".join(by) or "its store"
    if desk.lacks_processes:
        reasons += ", whose share nobody knows without share_processes"
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


def standing(desk: Desk) -> dict[str, object]:
    """How the limit stood when its store answered last: calls in progress, and units in each window."""
    terms, answer = desk.main.terms, desk.main.answer
    if terms is None or answer is None:
        return {"limit": desk.limit, "in_flight": "", "windows": ()}
    bound = terms["in_flight"]
    used = f"{answer['used']}/{bound}" if bound >= 0 else str(answer["used"])
    windows = tuple(f"{used}/{bound_text(each)}" for used, each in zip(answer["sums"], terms["windows"], strict=False))
    return {"limit": desk.limit, "in_flight": used, "windows": windows}


def acquired(desk: Desk, waited_s: float, attempt: int) -> None:
    if wanted("slot_acquired"):
        emit("slot_acquired", **standing(desk), wait_s=round(waited_s, 3), attempt=attempt)


def released(desk: Desk) -> None:
    if wanted("slot_released"):
        emit("slot_released", **standing(desk))


def throttled(desk: Desk, granted_at: int, retry_after_s: float | None) -> None:
    """With how long the limit cools down for it: as the provider said, or by the limit's own steps.

    Of calls that were under way together, the first begins the step, and the others say nothing new.
    """
    terms, answer = desk.main.terms, desk.main.answer
    attempt = 1 + (answer["level"] if answer else 0)
    wait_s = retry_after_s
    if wait_s is None and terms is not None and granted_at > desk.refused_at:
        wait_s = cooldown.step(terms, attempt) / 1000
    desk.refused_at = max(desk.refused_at, answer["now"] if answer else granted_at)
    emit("rate_limited_retrying", **standing(desk), code=429, wait_s=wait_s, attempt=attempt)


def blocked(desk: Desk, wait: Wait) -> None:
    """Said when callers of this process begin to wait for something else than before."""
    fields = {**standing(desk), "wait_s": round(wait["eta"] / 1000, 3), "ahead": wait["ahead"]}
    for by in wait["by"]:
        if by == IN_FLIGHT:
            emit("at_in_flight_capacity", **fields)
        elif "/" in by:
            emit("rate_limit_reached", window=reason_text(desk, by), **fields)
