"""Finds out what a limit can never give."""

from __future__ import annotations

from forebay.errors import NeverFits
from forebay.model.limit import CALLS
from forebay.model.limit_record import Terms
from forebay.rules.window_log import bound_text, in_flight_text


def misfit(limit: str, terms: Terms, units: dict[str, int], *, partial: bool = False) -> NeverFits | None:
    """Return why a call of these units cannot be made; None if it can.

    `partial`: these are not all units of the call, so that some may be left out.
    """
    for bound in terms["windows"]:
        if 0 < bound["n"] < units.get(bound["unit"], 0):
            return NeverFits(
                f"A call of {units[bound['unit']]} {bound['unit']} never fits into {bound_text(bound)}.",
                remedy="Make smaller calls, or raise the limit.",
            )
    for unit_bound in terms["in_flight_units"]:
        if 0 < unit_bound["n"] < units.get(unit_bound["unit"], 0):
            return NeverFits(
                f"A call of {units[unit_bound['unit']]} {unit_bound['unit']} never fits into "
                f"{in_flight_text(unit_bound)}.",
                remedy="Make smaller calls, or raise the limit.",
            )
    named = [*(bound["unit"] for bound in terms["windows"]), *(bound["unit"] for bound in terms["in_flight_units"])]
    if len(units) > 1:
        known = {CALLS, *named}
        for unit in units:
            if unit not in known:
                return NeverFits(
                    f"Limit {limit!r} counts no {unit!r}.",
                    remedy=f"It counts: {', '.join(sorted(known))}.",
                    uncounted=unit,
                )
    for unit in () if partial else named:
        if unit not in units:
            return NeverFits(
                f"Limit {limit!r} counts {unit}, and the call does not name them.",
                remedy=f'Say how many it takes, 0 if none: units={{"{unit}": …}}.',
                unnamed=unit,
            )
    return None
