"""Reads records by what was promised: which cool-downs bound anybody, the ramps after them, the time after kills."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chaos.limits import measures
from chaos.limits.records import Call, CoolDown, Records
from chaos.limits.rules import Rules

_TOGETHER_S = 0.5


def heard(found: Records, rules: Rules) -> list[CoolDown]:
    """All but those whose news was lost with the process that was told, or froze with it."""
    told = []
    for one in found.cooldowns:
        latest = one.began_at + rules.trail_s
        struck = [mark for mark in found.marks if mark.who == one.who and mark.at < latest]
        if not struck or (struck[-1].name == "cont" and struck[-1].at < one.began_at):
            told.append(one)
    return told


def intruders_who_knew(found: Records, rules: Rules) -> list[tuple[Call, CoolDown]]:
    """Calls within the trail of a cool-down, of processes that knew of it: each with the cool-down."""
    if rules.knowing_trail_s is None:
        return []
    told = heard(found, rules)
    late = []
    for call in found.calls:
        for one in told:
            knows_at = one.began_at + (0.0 if call.who == one.who else rules.news_s)
            latest = min(one.began_at + rules.trail_s, one.ends_at)
            if knows_at + rules.knowing_trail_s < call.arrived_at <= latest:
                late.append((call, one))
                break
    return late


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


@dataclass(frozen=True, slots=True)
class Killed:
    """Processes that were killed together, until when the last of them was."""

    who: frozenset[str]
    at: float

    def __str__(self) -> str:
        return ", ".join(sorted(self.who))


def kills(found: Records) -> list[Killed]:
    groups: list[Killed] = []
    for mark in found.marked("kill"):
        if groups and mark.at - groups[-1].at < _TOGETHER_S:
            groups[-1] = Killed(groups[-1].who | {mark.who}, mark.at)
        else:
            groups.append(Killed(frozenset({mark.who}), mark.at))
    return groups


def after_kills(found: Records, rules: Rules) -> Iterator[tuple[Killed, measures.Back]]:
    """Only where the limit had been reached before: otherwise nothing was lacking."""
    if rules.in_flight is None:
        return
    dead: frozenset[str] = frozenset()
    for killed in kills(found):
        dead |= killed.who
        before = [call for call in found.calls if call.arrived_at < killed.at]
        if measures.peak(before).count < rules.in_flight:
            continue
        yield (
            killed,
            measures.back(
                found.calls,
                killed.at,
                rules.in_flight,
                without=dead,
                span=found.span,
                within_s=rules.back_within_s or 0.0,
            ),
        )
