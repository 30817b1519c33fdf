"""Judges the limits by what the provider saw, with no more excused than is written down as the worst case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from chaos.checker import Verdict
from chaos.fleet.promised import BEAT_S, LONGEST_MS, RULES, TRAIL_S, TRANSIT_S
from chaos.fleet.troubles import Troubles
from chaos.limits import measures, seen, summary
from chaos.limits.checks import most_between
from chaos.limits.records import Call, CoolDown, Records
from chaos.limits.rules import Rules

_SLACK_S = 0.3
_LATE_S = 1.0
"""A process that was frozen right before it sent does so as soon as it runs again."""


def judge(found: Records, troubles: Troubles, refused: set[int]) -> Verdict:
    """`refused` are the calls of which a handler says that it heard its 429."""
    verdict = Verdict([*found.flaws], {})
    found = replace(found, marks=tuple(troubles.marks))
    for name in found.limits:
        if name not in RULES:
            verdict.violations.append(f"record: calls of limit {name!r}, for which nothing was promised")
    unhindered = 0
    for name, rules in RULES.items():
        own = found.of(name)
        late = {call.number for call in _late(own, troubles)}
        timely = replace(own, calls=tuple(call for call in own.calls if call.number not in late))
        verdict.violations += [f"{name}: {text}" for text in _broken(timely, rules, troubles, refused)]
        verdict.missing += [f"{name}: {text}" for text in summary.unreached(own, rules)]
        verdict.figures |= _figures(name, own, timely, rules)
        heard = _heard(own, rules, refused)
        unhindered += sum(_known(one, rules, troubles) is one for one in heard)
    verdict.figures["cool-downs whose news nothing held up"] = unhindered
    if not unhindered:
        verdict.missing.append("a cool-down whose news nothing held up")
    slowest_s = _slowest(found, troubles)
    verdict.figures["ms until a call had arrived, at most"] = round(1000 * slowest_s)
    if slowest_s > TRANSIT_S:
        _doubt(verdict, slowest_s)
    return verdict


def _broken(found: Records, rules: Rules, troubles: Troubles, refused: set[int]) -> Iterator[str]:
    yield from _in_flight(found, rules, troubles)
    yield from _windows(found, rules, troubles)
    yield from _cooldowns(found, rules, troubles, refused)
    yield from _rested(found, rules, troubles)


def _late(found: Records, troubles: Troubles) -> Iterator[Call]:
    """One call of each process that was frozen, which may have been just about to send."""
    for thaw in troubles.thaws:
        after = (call for call in found.calls if call.who == thaw.who and call.arrived_at >= thaw.at)
        first = next(after, None)
        if first is not None and first.arrived_at < thaw.at + _LATE_S:
            yield first


def _forgot(troubles: Troubles) -> list[tuple[float, float]]:
    """When an empty store may have let in as many again: until somebody who remembers has asked it."""
    return [(back, back + BEAT_S + TRAIL_S + _SLACK_S) for _, back in troubles.restarts.get("limits", [])]


def _bound(n: int, since: float, until: float, forgot: list[tuple[float, float]]) -> int:
    return n * (1 + sum(begins <= until and since <= ends for begins, ends in forgot))


def _in_flight(found: Records, rules: Rules, troubles: Troubles) -> Iterator[str]:
    n = rules.in_flight
    if n is None:
        return
    forgot = [(begins, ends + LONGEST_MS / 1000) for begins, ends in _forgot(troubles)]
    for at, level in measures.levels(found.calls):
        if level > _bound(n, at, at, forgot):
            yield f"L1 {level} calls in progress at {at - found.span[0]:.3f} s, {_bound(n, at, at, forgot)} are allowed"


def _windows(found: Records, rules: Rules, troubles: Troubles) -> Iterator[str]:
    forgot = _forgot(troubles)
    for window in rules.windows:
        for first, last, units in measures.windows(found.calls, window.window_s):
            bound = _bound(window.n, first, last, forgot)
            if units > bound:
                yield (
                    f"L2 {units} units in the {window.window_s:g} s from {first - found.span[0]:.3f} s on,"
                    f" {bound} are allowed"
                )


def _heard(found: Records, rules: Rules, refused: set[int]) -> list[CoolDown]:
    """Those of which somebody was told who lived on to tell the others."""
    told = tuple(one for one in found.cooldowns if one.call in refused)
    return seen.heard(replace(found, cooldowns=told), rules)


def _cooldowns(found: Records, rules: Rules, troubles: Troubles, refused: set[int]) -> Iterator[str]:
    heard = _heard(found, rules, refused)
    known = [_known(one, rules, troubles) for one in heard]
    forgot = _forgot(troubles)
    for call, one in measures.intruders(found.calls, known, rules.trail_s):
        if not any(begins <= call.arrived_at <= ends for begins, ends in forgot):
            yield (
                f"L3 call {call.number} of {call.who} arrived {call.arrived_at - one.began_at:.3f} s into a cool-down"
                f" of {one.ends_at - one.began_at:.3f} s"
            )
    quiet = replace(found, cooldowns=tuple(one for one in heard if one in known))
    for ends_at, steps in seen.ramps(quiet, rules):
        if _disturbed_at(troubles, ends_at, ends_at + len(steps) * rules.ramp_every_s) is not None:
            continue
        for step in steps:
            if step.arrivals_so_far > 2 * step.allowance - rules.probes:
                yield (
                    f"L3 {step.arrivals_so_far} calls had arrived in step {step.number + 1} after the cool-down that"
                    f" ended at {ends_at - found.span[0]:.3f} s, {2 * step.allowance - rules.probes} are allowed"
                )


def _known(one: CoolDown, rules: Rules, troubles: Troubles) -> CoolDown:
    """News of it travel by the store: while that does not answer they wait."""
    begins = one.began_at
    while (until := _disturbed_at(troubles, begins, begins + rules.trail_s)) is not None and until > begins:
        begins = until
    return one if begins == one.began_at else replace(one, began_at=begins)


def _disturbed_at(troubles: Troubles, since: float, until: float) -> float | None:
    """The end of a trouble of the store's within this time."""
    ends = [ends for begins, ends in troubles.disturbed.get("limits", []) if begins <= until and since < ends]
    return max(ends, default=None)


def _rested(found: Records, rules: Rules, troubles: Troubles) -> Iterator[str]:
    """L4, L5: left in peace, with work waiting, the living use all there is: nothing is held by the dead."""
    if troubles.rest is None or rules.in_flight is None or rules.windows:
        return
    begins, ends = troubles.rest
    most = most_between([*found.calls], begins, ends)
    if most < rules.in_flight:
        yield f"L4 {most} calls in progress at most when all was well and work waited, not {rules.in_flight}"


def _slowest(found: Records, troubles: Troubles) -> float:
    """How long it took a call to arrive, of those that nobody froze."""
    frozen = {mark.who for mark in troubles.marks if mark.name == "stop"}
    times = [call.arrived_at - call.sent_at for call in found.calls if call.sent_at and call.who not in frozen]
    return max(times, default=0.0)


def _doubt(verdict: Verdict, slowest_s: float) -> None:
    """On a machine that stands still calls arrive later than the limiter was promised: that proves nothing."""
    late = [text for text in verdict.violations if ": L2 " in text or ": L3 " in text]
    verdict.violations[:] = [text for text in verdict.violations if text not in late]
    verdict.missing += [f"a machine on which calls arrive in time, here {slowest_s:.3f} s: {text}" for text in late]


def _figures(name: str, own: Records, timely: Records, rules: Rules) -> dict[str, int]:
    counts = {
        "calls": len(own.calls),
        "of these late after a freeze": len(own.calls) - len(timely.calls),
        "most calls in progress": measures.peak(own.calls).count,
        "cool-downs": len(measures.episodes(own.cooldowns)),
    }
    for window in rules.windows:
        counts[f"most units in any {window.window_s:g} s"] = measures.worst_window(own.calls, window.window_s).count
    return {f"{name}: {what}": count for what, count in counts.items()}
