"""Sums a run up: what was counted, and what did not happen often enough to prove anything."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.limits import measures, seen
from chaos.limits.records import Records
from chaos.limits.rules import Rules


def figures(found: Records, rules: Rules) -> dict[str, int]:
    begins_at, ends_at = found.span
    level = measures.mean_level(found.calls, begins_at, ends_at)
    counts = {
        "calls": len(found.calls),
        "units": sum(call.units for call in found.calls),
        "callers' processes": len({call.who for call in found.calls}),
        "ms from the first call to the end": round(1000 * (ends_at - begins_at)),
        "most calls in progress": measures.peak(found.calls).count,
        "most units in progress": measures.peak(found.calls, weighted=True).count,
    }
    if rules.in_flight:
        counts["used of what may be in progress, %"] = round(100 * level / rules.in_flight)
    if rules.ideal:
        counts["used of what the load could, %"] = round(100 * level / rules.ideal)
    for window in rules.windows:
        counts[f"most units in any {window.window_s:g} s"] = measures.worst_window(found.calls, window.window_s).count
        shares = measures.rate_shares(found.calls, window.n, window.window_s + rules.window_extra_s)
        if shares:
            counts[f"used of {window}, %"] = round(100 * shares[-1])
    counts |= {
        "answers other than 200": sum(call.status not in {200, None} for call in found.calls),
        "cool-downs": len(measures.episodes(found.cooldowns)),
        "arrivals within them": len(measures.intruders(found.calls, seen.heard(found, rules), rules.trail_s)),
        "workers killed": len(found.marked("kill")),
        "workers frozen": len(found.marked("stop")),
    }
    for _, steps in seen.ramps(found, rules)[-1:]:
        for step in steps:
            when = f"in step {step.number + 1} after the last cool-down"
            counts |= {f"most calls in progress {when}": step.peak, f"arrivals {when}": step.arrivals}
    for killed, back in seen.after_kills(found, rules):
        counts[f"ms until all was in use again without {killed}"] = (
            -1 if back.after_s is None else round(1000 * back.after_s)
        )
    return counts


def missing(found: Records, rules: Rules) -> Iterator[str]:
    """What a run must have seen to prove anything: a limit that nobody reached was not tested."""
    yield from unreached(found, rules)
    counts = {
        "kills": (len(found.marked("kill")), rules.least_kills),
        "freezes": (len(found.marked("stop")), rules.least_stops),
        "cool-downs": (len(measures.episodes(seen.heard(found, rules))), rules.least_cooldowns),
    }
    yield from (f"{name} {count} of {least}" for name, (count, least) in counts.items() if count < least)
    steps = [step for _, steps in seen.ramps(found, rules) for step in steps]
    if rules.least_cooldowns and rules.ceiling > rules.probes and not any(step.arrivals for step in steps):
        yield "a call after a cool-down"
    if rules.back_within_s is not None:
        yield from _untested_kills(found, rules, rules.back_within_s)


def unreached(found: Records, rules: Rules) -> Iterator[str]:
    least_calls = rules.least_peak or rules.in_flight
    for bound, weighted, noun in ((least_calls, False, "calls"), (rules.in_flight_units, True, "units")):
        count = measures.peak(found.calls, weighted=weighted).count
        if bound is not None and count < bound:
            yield f"{noun} in progress {count} of {bound}"
    for window in rules.windows:
        count = measures.worst_window(found.calls, window.window_s).count
        # With several units to a call the rest may be too small for one more.
        if count + max((call.units for call in found.calls), default=1) <= window.n:
            yield f"units in {window.window_s:g} s {count} of {window.n}"
        shares = measures.rate_shares(found.calls, window.n, window.window_s + rules.window_extra_s)
        if rules.least_rate is not None and not shares:
            yield f"a second window of {window.window_s:g} s"


def _untested_kills(found: Records, rules: Rules, within_s: float) -> Iterator[str]:
    judged = [killed for killed, _ in seen.after_kills(found, rules)]
    for killed in seen.kills(found):
        held = [call for call in found.calls if call.who in killed.who and call.ended_at > killed.at]
        if killed not in judged:
            yield f"all in use before {killed} was killed"
        elif not held:
            yield f"a call of {killed} in progress when it was killed"
        elif killed.at + within_s >= found.span[1]:
            yield f"the time that {killed}'s capacity has to come back"
