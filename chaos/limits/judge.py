"""The judge of a limiter: no import from Forebay, only what the provider wrote down and what was promised."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from chaos.checker import Verdict
from chaos.limits import measures, records, seen, summary
from chaos.limits.records import Records
from chaos.limits.rules import Rules, Window


def judge(path: Path, rules: Mapping[str, Rules]) -> Verdict:
    """Judge each limit by its rules; calls of a limit without any are themselves a violation."""
    found = records.read(path)
    violations = [*found.flaws, *_crashes(found)]
    figures: dict[str, int] = {}
    missing: list[str] = []
    violations += [
        f"record: calls of limit {name!r}, for which nothing was promised" for name in found.limits if name not in rules
    ]
    for name, promised in rules.items():
        verdict = judge_limit(found.of(name), promised)
        prefix = f"{name}: " if len(rules) > 1 else ""
        violations += [prefix + text for text in verdict.violations]
        figures |= {prefix + figure: count for figure, count in verdict.figures.items()}
        missing += [prefix + text for text in verdict.missing]
    return Verdict(violations, figures, missing)


def judge_limit(found: Records, rules: Rules) -> Verdict:
    """Judge the records of one limit alone."""
    violations = [
        *_in_flight(found, rules),
        *_windows(found, rules),
        *_cooldowns(found, rules),
        *_ramps(found, rules),
        *_use(found, rules),
        *_backs(found, rules),
    ]
    return Verdict(violations, summary.figures(found, rules), [*summary.missing(found, rules)])


def _crashes(found: Records) -> Iterator[str]:
    killed = {mark.who for mark in found.marked("kill")}
    for mark in found.marked("exit"):
        if mark.code != 0 and mark.who not in killed:
            yield f"caller {mark.who} ended with {mark.code}: see its .stderr"


def _since(found: Records, at: float) -> str:
    return f"{at - found.span[0]:.3f} s"


def _in_flight(found: Records, rules: Rules) -> Iterator[str]:
    for bound, weighted, noun in ((rules.in_flight, False, "calls"), (rules.in_flight_units, True, "units")):
        if bound is None:
            continue
        worst = measures.peak(found.calls, weighted=weighted)
        if worst.count > bound + rules.excess_allowed:
            yield (
                f"L1 {worst.count} {noun} in progress at {_since(found, worst.at)},"
                f" {_allowed(bound, rules.excess_allowed)}"
            )


def _windows(found: Records, rules: Rules) -> Iterator[str]:
    for window in rules.windows:
        worst = measures.worst_window(found.calls, window.window_s)
        if worst.count > window.n + rules.excess_allowed:
            yield (
                f"L2 {worst.count} units in the {window.window_s:g} s from {_since(found, worst.at)} on,"
                f" {_allowed(window.n, rules.excess_allowed)}"
            )


def _allowed(bound: int, excess: int) -> str:
    return f"{bound} are allowed" + (f" and {excess} after freezes" if excess else "")


def _cooldowns(found: Records, rules: Rules) -> Iterator[str]:
    late = [
        *measures.intruders(found.calls, seen.heard(found, rules), rules.trail_s),
        *seen.intruders_who_knew(found, rules),
    ]
    if len(late) > rules.excess_allowed:
        for call, cooldown in late:
            yield (
                f"L3 call {call.number} of {call.who} arrived {call.arrived_at - cooldown.began_at:.3f} s into a"
                f" cool-down of {cooldown.ends_at - cooldown.began_at:g} s that {cooldown.who} was told of,"
                f" {rules.trail_s:g} s may pass{_until_it_knows(rules)}"
            )


def _until_it_knows(rules: Rules) -> str:
    return "" if rules.knowing_trail_s is None else f", {rules.knowing_trail_s:g} s for a process that knows of it"


def _ramps(found: Records, rules: Rules) -> Iterator[str]:
    for ends_at, steps in seen.ramps(found, rules):
        for step in steps:
            # The arrivals of a step may trail into the next, never the other way: added up they stay within bounds.
            count, allowance = step.peak, step.allowance
            if rules.ramp == "arrivals":
                count, allowance = step.arrivals_so_far, 2 * step.allowance - rules.probes
            if count > allowance + rules.excess_allowed:
                what = "in progress" if rules.ramp == "in_flight" else "had arrived"
                yield (
                    f"L3 {count} calls {what} in step {step.number + 1} after the cool-down that ended at"
                    f" {_since(found, ends_at)}, {_allowed(allowance, rules.excess_allowed)}"
                )


def _use(found: Records, rules: Rules) -> Iterator[str]:
    if rules.ideal and rules.least_use is not None:
        level = measures.mean_level(found.calls, *found.span)
        if level < rules.least_use * rules.ideal:
            yield (
                f"L5 {level:.2f} calls in progress on average, {level / rules.ideal:.1%} of the {rules.ideal:.2f} that"
                f" were possible; at least {rules.least_use:.1%} were promised"
            )
    for window in rules.windows if rules.least_rate is not None else ():
        shares = measures.rate_shares(found.calls, window.n, window.window_s + rules.window_extra_s)
        if shares and rules.least_rate is not None and shares[-1] < rules.least_rate:
            enforced = len(shares) * (window.window_s + rules.window_extra_s)
            yield (
                f"L5 unit {len(shares) * window.n + 1} came {enforced / shares[-1]:.3f} s after the first, at"
                f" the latest {enforced / rules.least_rate:.3f} s were promised ({window}, {shares[-1]:.1%} used)"
            )


def _backs(found: Records, rules: Rules) -> Iterator[str]:
    within_s = rules.back_within_s
    for dead, back in seen.after_kills(found, rules):
        at = dead.at
        if within_s is None or at + within_s >= found.span[1]:
            continue
        had = min(back.before, float(rules.in_flight or 0))
        killed = f"L4 {dead} was killed at {_since(found, at)}"
        if back.after_s is None:
            living = [call for call in found.calls if call.who not in dead.who and call.arrived_at > at]
            most = measures.peak(living).count
            yield (
                f"{killed} and {found.span[1] - at:.1f} s later its capacity is not back: the others reached {most}"
                f" of {rules.in_flight}"
            )
        elif back.after_s > within_s:
            yield f"{killed}, the others reached {rules.in_flight} again after {back.after_s:.3f} s, not {within_s:g} s"
        elif back.afterwards < rules.least_back * had:
            yield (
                f"{killed}: from {within_s:g} s after it on {back.afterwards:.2f} calls were in progress on average,"
                f" before it {back.before:.2f}"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", type=Path, help="what a provider wrote down")
    parser.add_argument("--limit", default="chaos")
    parser.add_argument("--in-flight", type=int)
    parser.add_argument("--window", type=Window.of, action="append", default=[])
    options = parser.parse_args()
    rules = Rules(in_flight=options.in_flight, windows=tuple(options.window))
    verdict = judge(options.record, {options.limit: rules})
    print(verdict.text())
    return verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
