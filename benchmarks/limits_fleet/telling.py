"""Prints what a fleet did beside what it might have done."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence

from benchmarks.limiting.comparing import met
from benchmarks.limits_fleet.judge import Verdict, combined
from benchmarks.limits_fleet.lock_waits import LOOKS, WAITS
from benchmarks.limits_fleet.phase import Measured
from benchmarks.limits_fleet.plan import Plan
from benchmarks.limits_fleet.tally import Tally, added_up, p50_p99

ASKED = 0.9
_EXCHANGES = ("exchange", "renew", "give_back", "send_back")


def ideal(plan: Plan, alone: Verdict) -> float:
    """Calls a second: what the bounds allow, or the same processes do with semaphores of their own if that is less."""
    return min(plan.allowed, plan.by_window, alone.rate)


def tell(plan: Plan, ours: Sequence[Measured], alone: Sequence[Measured]) -> float:
    """Print one fleet, and return its part of the ideal."""
    verdict, beside = combined([each.verdict for each in ours]), combined([each.verdict for each in alone])
    best = ideal(plan, beside)
    if best == plan.by_window and verdict.share_of_rate is not None:
        ratio = verdict.share_of_rate  # calls come in bursts: only whole windows tell
    else:
        ratio = verdict.rate / best if best else 0.0
    print(f"\n{plan.title}; {len(ours)} x {plan.seconds:g} s after {plan.warm_s:g} s; load {os.getloadavg()[0]:.1f}")
    allowed = f"in_flight / call {plan.allowed:,.0f}, " if plan.call_s else ""
    allowed += f"window {plan.by_window:,.1f}, " if plan.window_n else ""
    print(f"  {verdict.rate:,.1f} calls/s of {best:,.1f} ({allowed}local semaphores {beside.rate:,.1f}):", end=" ")
    print(f"{ratio:.3f}, asked >= {ASKED:g}: {met(ratio >= ASKED)}")
    print(f"  judge: {_judged(plan, verdict)}")
    tally = added_up([each.tally.said() for each in ours])
    span_s = sum(each.verdict.span_s for each in ours)
    calls = sum(each.verdict.calls for each in ours)
    print(f"  store: {_store(ours, tally, span_s, calls)}")
    print(f"  clients: {_clients(ours)}; with local semaphores {_clients(alone)}")
    print(f"  waits: callers {_both(tally.waits_s)}, exchanges {_both(tally.exchanges_s)} (p50 / p99)")
    print(f"  {_troubles(tally)}", flush=True)
    return ratio


def _judged(plan: Plan, verdict: Verdict) -> str:
    said = [f"peak {verdict.peak} of {plan.in_flight}{_over(verdict.peak, plan.in_flight)}, mean {verdict.level:.1f}"]
    if plan.window_n:
        said += [worst_window(verdict, plan.window_n)]
        share = "unknown: too short" if verdict.share_of_rate is None else f"{verdict.share_of_rate:.1%}"
        least = "" if verdict.shortest_s is None else f" (least seen: {verdict.shortest_s - plan.window_s:.3f} s)"
        said += [f"{share} of N per W_eff, W_eff - W {plan.enforced_s - plan.window_s:.3f} s{least}"]
    return ", ".join([*said, f"read at most {1000 * verdict.late_s:.0f} ms late"])


def worst_window(verdict: Verdict, n: int) -> str:
    """Over by the judge's clock alone may be the judge's fault: it reads late where the cores are short."""
    sent = f" (by the callers' clocks {verdict.worst_sent})" if verdict.worst > n else ""
    return f"worst window {verdict.worst} of {n}{_over(verdict.worst, n)}{sent}"


def _over(count: int, most: int) -> str:
    return " OVER" if count > most else ""


def _store(measured: Sequence[Measured], tally: Tally, span_s: float, calls: int) -> str:
    exchanges = sum(tally.counts[name] for name in _EXCHANGES)
    kinds = ", ".join(f"{tally.counts[name] / span_s:,.0f} {name}" for name in _EXCHANGES if tally.counts[name])
    each = f"{exchanges / calls:.2f} a call" if calls else "no call"
    said = [f"{exchanges / span_s:,.0f} exchanges/s ({kinds}), {each}"]
    server_us = _median(measured, lambda one: one.store.server_us)
    if server_us is not None:
        said += [f"{server_us:,.0f} us each on the server"]
    if any(one.store.cpu_s for one in measured):
        said += [f"CPU {100 * sum(one.store.cpu_s for one in measured) / span_s:.0f} %"]
    connections = _median(measured, lambda one: one.store.connections)
    if connections is not None:
        said += [f"{connections:.0f} connections"]
    for name in measured[0].store.more:
        said += [f"{name} {statistics.fmean(one.store.more[name] for one in measured):.1f}"]
    if tally.counts[WAITS]:
        said += [f"{tally.counts[WAITS]:,} waits for the write lock, {tally.counts[LOOKS]:,} looks at it"]
    return ", ".join(said)


def _clients(measured: Sequence[Measured]) -> str:
    span_s = sum(one.verdict.span_s for one in measured)
    calls = sum(one.verdict.calls for one in measured)
    cpu_s = sum(one.cost.cpu_s for one in measured)
    each = f" ({1e6 * cpu_s / calls:,.0f} us a call)" if calls else ""
    rss_mb = statistics.median(one.cost.rss_mb for one in measured)
    own_mb = statistics.median(one.cost.own_mb for one in measured)
    return f"CPU {100 * cpu_s / span_s:.0f} %{each}, RSS {rss_mb:.0f} MB, PSS {own_mb:.1f} MB each"


def _troubles(tally: Tally) -> str:
    said = [f"re-stamps {tally.counts['re-stamps']:,}", f"late_start {tally.counts['late_start']:,}"]
    said += [f"Busy {tally.counts['error Busy']:,}"]
    told = {*_EXCHANGES, "re-stamps", "late_start", "error Busy", WAITS, LOOKS}
    said += [f"{name} {count:,}" for name, count in sorted(tally.counts.items()) if name not in told]
    return ", ".join(said)


def _both(seconds: list[float]) -> str:
    found = p50_p99(seconds)
    return "none" if found is None else f"{_time(found[0])} / {_time(found[1])}"


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _median(measured: Sequence[Measured], of: Callable[[Measured], float | None]) -> float | None:
    found = [figure for figure in map(of, measured) if figure is not None]
    return statistics.median(found) if found else None


def tell_curve(title: str, rows: Sequence[tuple[Plan, float, float]]) -> None:
    """`rows`: each fleet with its calls a second and its part of the ideal."""
    peak = max(rate for _, rate, _ in rows)
    print(f"\n{title}: {'processes':>10} {'callers':>8} {'calls/s':>9} {'of peak':>8} {'of ideal':>9}")
    for plan, rate, ratio in rows:
        part = rate / peak if peak else 0.0
        print(
            f"{'':>{len(title)}}  {plan.processes:>10} {plan.processes * plan.callers:>8} {rate:>9,.1f} {part:>8.2f}"
            f" {ratio:>9.2f}"
        )
    best = max(range(len(rows)), key=lambda row: rows[row][1])
    least = min(rate for _, rate, _ in rows[best:]) / peak if peak else 0.0
    print(f"from the peak on at least {least:.2f} of it, asked >= {ASKED:g}: {met(least >= ASKED)}", flush=True)
