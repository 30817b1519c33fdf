"""Judges the record: the most at once, the worst window, repeats, units and money, counted afterwards and exactly."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from forebay.simulate.clock import Clock
from forebay.simulate.record import Call
from forebay.simulate.routes import PRICES, matching
from forebay.simulate.settings import Quota, Settings, Window

TOO_MANY: Final = 429
_GOOD: Final = range(200, 300)
_CHUNKS: Final = ("docai.process", "adobe.autotag", "openai.chat", "azure.chat", "translate.detect")
"""The routes of which a call stands for a piece of work that ought to be done once."""


def verdict(calls: Sequence[Call], settings: Settings, clock: Clock) -> dict[str, Any]:
    by_route: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_route[call.route].append(call)
    routes = {route: _route(found, settings) for route, found in sorted(by_route.items())}
    quotas = {
        name: _quota(name, quota, [call for route in matching(name) for call in by_route[route]], calls, clock)
        for name, quota in settings.quotas.items()
    }
    chunks = _chunks(calls)
    requests = [call for call in calls if call.route != "adobe.job"]
    return {
        "calls": len(requests),
        "refused_429": sum(call.status == TOO_MANY for call in requests),
        "peak_in_flight": peak(requests),
        "money": round(sum(each["money"] for each in routes.values()), 6),
        "within_quotas": all(each["within"] for each in quotas.values()),
        "chunks": len(chunks),
        "most_calls_of_a_chunk": max((len(found) for found in chunks.values()), default=0),
        "repeated_after_success": sum(_repeated(found) for found in chunks.values()),
        "paid_more_than_once": sum(sum(call.paid for call in found) > 1 for found in chunks.values()),
        "routes": routes,
        "quotas": quotas,
    }


def calls_per_chunk(calls: Iterable[Call]) -> dict[str, dict[str, int]]:
    """For each route and fingerprint: how often it was called, answered and paid."""
    found: dict[str, dict[str, int]] = {}
    for (route, fingerprint), same in _chunks(calls).items():
        found[f"{route} {fingerprint}"] = {
            "calls": len(same),
            "answered": sum(_answered(call) for call in same),
            "paid": sum(call.paid for call in same),
            "repeated_after_success": _repeated(same),
        }
    return found


def peak(calls: Iterable[Call]) -> int:
    """The most calls between arrival and end at one instant; one that ends as another arrives does not overlap it."""
    moves = [move for call in calls for move in ((call.arrived, 1), (_end(call), -1))]
    most = now = 0
    for _, step in sorted(moves):
        now += step
        most = max(most, now)
    return most


def worst_sliding(entries: Sequence[tuple[float, int]], per_s: float) -> int:
    """The most units that arrived within any `per_s` seconds, the instant at their end not counted."""
    found = sorted(entries)
    worst = total = first = 0
    for at, units in found:
        total += units
        while found[first][0] <= at - per_s:
            total -= found[first][1]
            first += 1
        worst = max(worst, total)
    return worst


def worst_fixed(entries: Iterable[tuple[float, int]], per_s: float, clock: Clock) -> int:
    slices: Counter[int] = Counter()
    for at, units in entries:
        slices[math.floor(clock.wall(at) / per_s)] += units
    return max(slices.values(), default=0)


def _route(calls: list[Call], settings: Settings) -> dict[str, Any]:
    route = calls[0].route
    paid = [call for call in calls if call.paid]
    used: Counter[str] = Counter()
    for call in paid:
        used.update(call.used or call.units)
    prices = settings.prices.get(route) or settings.prices.get(route.partition(".")[0]) or PRICES.get(route, {})
    return {
        "calls": len(calls),
        "answers": dict(sorted(Counter(str(call.status or "none") for call in calls).items())),
        "admitted": sum(call.admitted for call in calls),
        "paid": len(paid),
        "open": sum(call.ended is None for call in calls),
        "clients_gone": sum(call.gone for call in calls),
        "peak_in_flight": peak(calls),
        "units": dict(used),
        "money": round(sum(count * prices.get(unit, 0.0) for unit, count in used.items()), 6),
    }


def _quota(name: str, quota: Quota, calls: list[Call], all_calls: Iterable[Call], clock: Clock) -> dict[str, Any]:
    found: dict[str, Any] = {}
    fits = []
    if quota.in_flight is not None:
        # Those that were refused count too: they were sent, and a provider without mercy would have counted them.
        found["in_flight"] = {"limit": quota.in_flight, "peak": peak(calls)}
        fits.append(found["in_flight"]["peak"] <= quota.in_flight)
    found["windows"] = []
    for window in quota.windows:
        worst = _worst(calls, window, clock)
        admitted = _worst([call for call in calls if call.admitted], window, clock)
        seen = {"limit": window.n, "worst": worst, "worst_admitted": admitted}
        found["windows"].append(window.model_dump(exclude={"n"}) | seen)
        fits.append(worst <= window.n)
    if quota.month is not None:
        total = sum(_units(call, quota.month.unit) for call in calls if call.admitted)
        found["month"] = {"limit": quota.month.n, "unit": quota.month.unit, "used": total}
        fits.append(total <= quota.month.n)
    found["refused"] = sum(call.denied_by.startswith(f"{name} ") for call in all_calls)
    return found | {"within": all(fits) and not found["refused"]}


def _worst(calls: Iterable[Call], window: Window, clock: Clock) -> int:
    entries = [(call.arrived, _units(call, window.unit)) for call in calls]
    if window.edge == "fixed":
        return worst_fixed(entries, window.per_s, clock)
    return worst_sliding(entries, window.per_s)


def _units(call: Call, unit: str) -> int:
    return 1 if unit == "calls" else call.units.get(unit, 0)


def _end(call: Call) -> float:
    return math.inf if call.ended is None else call.ended


def _chunks(calls: Iterable[Call]) -> Mapping[tuple[str, str], list[Call]]:
    found: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in calls:
        if call.route in _CHUNKS and call.fingerprint:
            found[call.route, call.fingerprint].append(call)
    return found


def _answered(call: Call) -> bool:
    return call.status in _GOOD and call.whole and not call.gone


def _repeated(calls: Iterable[Call]) -> int:
    """Calls that arrived after an earlier one of the same chunk had been answered."""
    done = math.inf
    repeated = 0
    for call in calls:
        repeated += call.arrived > done
        if _answered(call):
            done = min(done, _end(call))
    return repeated
