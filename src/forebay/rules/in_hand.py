"""Decides how many slots a session may have in hand: granted before their callers come."""

from __future__ import annotations

from forebay.model.limit_record import Record, Terms
from forebay.rules import limit_state as state
from forebay.rules import window_log as logs


def room(record: Record, terms: Terms, units: dict[str, int], now: int) -> int:
    """Return how many calls of these units may be granted though nobody wants to make them yet.

    None while anybody waits, while the limit is shut, or while it comes back after a refusal; and no bound is filled
    to more than its half, so that slots in hand are missing to nobody.
    """
    cool = record["cooldown"]
    shut = state.gate(record, terms, now)[1] > now
    if shut or cool["level"] or cool["ramp_began_at"] or not state.nobody_waits(record):
        return 0
    count = state.MOST_GRANTS
    if terms["in_flight"] >= 0:
        count = min(count, terms["in_flight"] // 2 - state.in_flight(record))
    for unit_bound in terms["in_flight_units"]:
        unit = unit_bound["unit"]
        need = units.get(unit, 0)
        if need > 0:
            count = min(count, (unit_bound["n"] // 2 - state.in_flight_sum(record, unit)) // need)
    for bound in terms["windows"]:
        need = units.get(bound["unit"], 0)
        if need > 0:
            count = min(count, (bound["n"] // 2 - state.log_of(record, logs.name(bound))["sum"]) // need)
    return max(0, count)
