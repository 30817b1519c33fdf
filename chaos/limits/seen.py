"""Reads records by what was promised: which cool-downs bound anybody, the ramps after them, the time after kills."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.limits import measures
from chaos.limits.records import CoolDown, Records
from chaos.limits.rules import Rules


def heard(found: Records, rules: Rules) -> list[CoolDown]:
    """All but those whose news was lost with the process that was told, or froze with it."""
    told = []
    for one in found.cooldowns:
        latest = one.began_at + rules.trail_s
        struck = [mark for mark in found.marks if mark.who == one.who and mark.at < latest]
        if not struck or (struck[-1].name == "cont" and struck[-1].at < one.began_at):
            told.append(one)
    return told


def ramps(found: Records, rules: Rules) -> list[tuple[float, list[measures.RampStep]]]:
    """By the end of each cool-down, what came until the next one."""
    whole = measures.episodes(heard(found, rules))
    found_ramps = []
    for number, (_, ends_at) in enumerate(whole, start=1):
        until = whole[number][0] if number < len(whole) else found.span[1]
        steps = measures.ramp(
            found.calls, ends_at, until, ceiling=rules.ceiling, probes=rules.probes, every_s=rules.ramp_every_s
        )
        found_ramps.append((ends_at, steps))
    return found_ramps


def after_kills(found: Records, rules: Rules) -> Iterator[tuple[str, float, measures.Back]]:
    """Only where the limit had been reached before: otherwise nothing was lacking."""
    if rules.in_flight is None:
        return
    kills = found.marked("kill")
    for mark in kills:
        dead = {other.who for other in kills if other.at <= mark.at}
        before = [call for call in found.calls if call.arrived_at < mark.at]
        if measures.peak(before).count < rules.in_flight:
            continue
        yield (
            mark.who,
            mark.at,
            measures.back(
                found.calls,
                mark.at,
                rules.in_flight,
                without=dead,
                span=found.span,
                within_s=rules.back_within_s or 0.0,
            ),
        )
