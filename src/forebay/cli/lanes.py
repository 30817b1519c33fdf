"""The commands for lanes: list, pause, resume."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.acting import answer
from forebay.cli.cells import beside, cut, when
from forebay.cli.opening import opened, who
from forebay.cli.options import Duration, Reading
from forebay.errors import BadInput, StoreError

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay
    from forebay.model.lane import Lane

_USUAL = Reading()
_COLUMNS = ("lane", "ready", "later", "running", "oldest ready", "limit", "paused", "until", "note")
LaneName = Annotated[str, Parameter(name="LANE", help="A kind, or a kind and its limit: ocr@adobe.")]


def listing(*, common: Reading = _USUAL) -> None:
    with opened(common) as app:
        found = app.ledger.lanes()
        states = _limit_states(app, found) if common.output == "table" else {}
    if common.output != "table":
        output.write(found, common.output)
        return
    now = time.time()
    rows = [
        (
            each.name,
            str(each.ready_count),
            str(each.later_count),
            str(each.running_count),
            beside(each.oldest_ready_at, now),
            states.get(each.name, ""),
            when(each.paused_at, now),
            "" if each.paused_at is None else when(each.paused_until, now) or "resumed",
            each.note,
        )
        for each in found
    ]
    if rows:
        output.table(_COLUMNS, rows)
    else:
        output.note("There are none.")


def _limit_states(app: Forebay, lanes: Sequence[Lane]) -> dict[str, str]:
    """Return how the limit of each lane stands, by the lane's name; lanes without a limit are left out."""
    from forebay.cli.limit_views import state

    look = app.look()
    limits = {lane.name: limit for lane in lanes if (limit := look.limit_of(lane.kind, lane.name)) is not None}
    if not limits:
        return {}
    try:
        limiter = app.limits.found()
        known = {} if limiter is None else {usage.name: state(usage) for usage in limiter.usages()}
    except StoreError:
        return dict.fromkeys(limits, "its store does not answer")
    return {name: cut(known.get(limit, "not defined")) for name, limit in limits.items()}


def pause(
    lane: LaneName,
    /,
    *,
    until: Annotated[str | None, Parameter(help="When it ends: an ISO instant, or +SECONDS.")] = None,
    lasting: Duration = None,
    note: Annotated[str, Parameter(show_default=False, help="Why; it is shown with the lane.")] = "",
    common: Reading = _USUAL,
) -> int:
    """Without --until or --for it lasts until it is resumed."""
    from forebay.cli import reading
    from forebay.engine.signals import instant
    from forebay.model.exchange import Action

    if until is not None and lasting is not None:
        raise BadInput("Both --until and --for are given.", remedy="Give one of them.")
    ends: datetime | float | None = None if until is None else reading.instant("--until", until)
    if lasting is not None:
        ends = time.time() + reading.duration("--for", lasting)
    ends_at = None if ends is None else instant("--until", ends)
    with opened(common) as app:
        acted = app.ledger.pause(lane, Action(who=who(), note=note), until=ends_at)
    return answer([acted], "paused", common)


def resume(lane: LaneName, /, *, common: Reading = _USUAL) -> int:
    from forebay.model.exchange import Action

    with opened(common) as app:
        acted = app.ledger.resume(lane, Action(who=who()))
    return answer([acted], "resumed", common)
