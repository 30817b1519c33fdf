"""Turns limits and how they stand into what people read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from forebay.cli import output
from forebay.cli.cells import cut, span, when
from forebay.cli.standings import start_cell, waits_cell
from forebay.errors import BadInput
from forebay.limits.usage import Holder, LayerUsage, PlaceUsage, Usage, WindowUsage
from forebay.model.lane import Lane
from forebay.model.limit import CALLS, FIELDS, Limit, Window
from forebay.rules.planning import plan
from forebay.rules.standing import Standing

LIST_COLUMNS = ("limit", "state", "in flight", "windows", "waiting", "processes")
_DEFINITION = ("field", "value", "from")
_PROCESSES = ("process", "calls", "waiting", "longest", "works on")
_KEYS = ("key", "calls", "waiting")
_PLACES = ("kept place", "owner", "comes back", "ends", "slot", "missed")
_MOST_KEYS = 20
_MOST_PLACES = 20
_LANES = ("lane", "ready", "later", "running", "waits", "next task starts", "more workers")
_HELP = {None: "", True: "would help", False: "would not help"}
_SHOWN = 3
_REASONS = {"cooldown": "cools down", "breaker": "cools down after a row of failures", "quota": "parked, quota used up"}
_BARS = {
    "relearning": "holds back: its store lost what was in use, so nothing starts until every call of before must have "
    "ended; if none runs, `forebay limits reset NAME --all` ends this",
    "ramp": "ramps up after a cool-down",
    "in_flight": "full: waits for a call to end",
}


def list_row(usage: Usage) -> tuple[str, ...]:
    return (
        usage.name,
        state(usage),
        ", ".join(
            [
                _of(usage.in_flight, usage.limit.in_flight),
                *(f"{_of(each.used, each.n)} {each.unit}" for each in usage.units_in_flight),
            ]
        ),
        ", ".join(f"{_of(each.used, each.n)} {_per(each)}" for each in usage.windows),
        str(usage.waiting),
        str(usage.sessions),
    )


def state(usage: Usage) -> str:
    if usage.paused:
        bounds = (
            usage.limit.in_flight,
            *usage.limit.in_flight_units.values(),
            *(each.n for each in usage.limit.windows),
        )
        if 0 in bounds:
            return "paused: a bound is 0"
        rest = "" if usage.paused_for_s is None else f" for another {span(usage.paused_for_s)}"
        who = f" by {usage.paused_by}" if usage.paused_by else ""
        return f"paused{who}{rest}{f': {usage.note}' if usage.note else ''}"
    if usage.cooldown:
        return f"{_REASONS.get(usage.cooldown, usage.cooldown)} for another {span(usage.cooldown_for_s)}"
    if usage.blocked_by:
        # Those who wait would fill it, but what holds them up now may be something else.
        now = [reason for reason in usage.blocked_by if reason != "in_flight" or not usage.free]
        if not now:
            return "open: those in line are about to be served"
        known = [text for reason, text in _BARS.items() if reason in now]
        if any(reason.startswith("in_flight:") for reason in now):
            known.append(_BARS["in_flight"])
        return known[0] if known else "full: waits for a window"
    return "ramps up after a cool-down" if usage.ramping else "open"


def show(usage: Usage, lanes: Sequence[tuple[Lane, Standing]] = ()) -> None:
    output.pairs(_pairs(usage))
    output.line()
    if lanes:
        output.table(_LANES, [_lane(*each) for each in lanes])
        output.line()
    output.table(_DEFINITION, _definition(usage))
    if usage.holders:
        output.line()
        output.table(_PROCESSES, [_process(each) for each in usage.holders])
    if usage.places:
        output.line()
        output.table(_PLACES, [_place(each) for each in usage.places[:_MOST_PLACES]])
        if len(usage.places) > _MOST_PLACES:
            output.line(f"and {len(usage.places) - _MOST_PLACES} more kept places: -o json shows all")
    if usage.keys:
        output.line()
        output.table(_KEYS, [(each.key, str(each.in_flight), str(each.waiting)) for each in usage.keys[:_MOST_KEYS]])
        if len(usage.keys) > _MOST_KEYS:
            output.line(f"and {len(usage.keys) - _MOST_KEYS} more keys: -o json shows all")


def _pairs(usage: Usage) -> Iterator[tuple[str, str]]:
    yield "limit", usage.name
    yield "state", state(usage)
    free = "" if usage.free is None else f", {usage.free} free"
    yield "in flight", f"{_of(usage.in_flight, usage.limit.in_flight)}{_share(usage.utilisation)}{free}"
    for unit in usage.units_in_flight:
        yield "", f"{_of(unit.used, unit.n)} {unit.unit}{_share(unit.utilisation)}, {unit.free} free"
    if usage.cut_off:
        yield "cut off", _cut_off(usage)
    if lost := sum(len(each.calls) for each in usage.holders if not each.alive and not each.cut_off):
        yield "left behind", f"{lost} by processes that have ended: each counts until its call_timeout_s is over"
    for each in usage.windows:
        opens = "has room now" if each.next_in_s <= 0 else f"has room for one more in {span(each.next_in_s)}"
        yield "window", f"{_of(each.used, each.n)} {_per(each)}{_share(each.utilisation)}, {each.free} free, {opens}"
        yield "", f"counted for {each.counted_s:.2f} s, which costs {each.cost:.1%} of the rate"
    yield "next call", _next(usage)
    processes = sum(each.waiting > 0 for each in usage.holders)
    kept = f" and {len(usage.places)} kept places" if usage.places else ""
    yield "waiting", f"{usage.waiting}, in {processes} processes{kept}" if usage.waiting or kept else "none"
    yield "cool-down", _cooldown(usage)
    yield "call time", _call_time(usage)
    yield "degraded", "yes: its store does not answer, or the limiter of this process fails" if usage.degraded else "no"


def _cut_off(usage: Usage) -> str:
    held = f"{usage.cut_off} of {usage.in_flight if usage.limit.in_flight is None else usage.limit.in_flight}"
    return f"{held} held by calls that were cut off: see on_disconnect, call_timeout_s"


def _next(usage: Usage) -> str:
    if not usage.blocked_by:
        return "a new caller may start now"
    if usage.eta_s is None:
        return "nobody can say when"
    return f"a new caller may start in about {span(usage.eta_s)}, after all who wait"


def _cooldown(usage: Usage) -> str:
    if usage.cooldown:
        return f"{usage.cooldown}, ends in {span(usage.cooldown_for_s)} (level {usage.level})"
    return "over, comes back step by step" if usage.ramping else "none"


def _call_time(usage: Usage) -> str:
    if usage.mean_call_s <= 0:
        return "not known yet"
    text = f"{usage.mean_call_s:.3g} s on average"
    if usage.limit.in_flight_units or any(window.unit != CALLS for window in usage.limit.windows):
        return text  # what a call takes of these is not known here
    try:
        found = plan(usage.limit, usage.mean_call_s)
    except BadInput:
        return text
    return f"{text}: {found.binds} binds, at {found.per_minute:.3g} calls a minute"


def _definition(usage: Usage) -> Iterator[tuple[str, str, str]]:
    now = time.time()
    layers = {each.name: each for each in usage.layers}
    for field in FIELDS:
        source = usage.sources[field]
        yield field, value_text(field, getattr(usage.limit, field)), _layer(source, layers.get(source), now)


def _layer(name: str, layer: LayerUsage | None, now: float) -> str:
    if layer is None:
        return name
    until = "" if layer.for_s is None else f" until {when(now + layer.for_s, now)}"
    who = f" by {layer.who}" if layer.who else ""
    note = f": {layer.note}" if layer.note else ""
    return f"{name}{until}{who}{note}"


def _lane(lane: Lane, standing: Standing) -> tuple[str, ...]:
    counts = (str(lane.ready_count), str(lane.later_count), str(lane.running_count))
    if not lane.ready_count:
        return (lane.name, *counts, "", "", "")
    help_ = _HELP[standing.more_workers_help]
    return (lane.name, *counts, waits_cell(standing, time.time()), start_cell(standing), help_)


def _process(holder: Holder) -> tuple[str, ...]:
    longest = max((call.for_s for call in holder.calls), default=None)
    return (
        f"{holder.label}{f' for {cut(holder.place, 40)}' if holder.place else ''}{_mark(holder)}",
        str(len(holder.calls)),
        str(holder.waiting),
        "" if longest is None else span(longest),
        _works_on(holder),
    )


def _place(place: PlaceUsage) -> tuple[str, ...]:
    late = "" if place.back_in_s >= 0 else " late"
    return (
        cut(place.place, 40),
        place.label,
        f"{span(abs(place.back_in_s))}{late}",
        f"in {span(place.ends_in_s)}",
        "kept for it" if place.has_slot else "",
        str(place.missed_count) if place.missed_count else "",
    )


def _mark(holder: Holder) -> str:
    if holder.cut_off:
        return " (cut off)"
    return "" if holder.alive else " (ended)"


def _works_on(holder: Holder) -> str:
    """The oldest calls that say what they do."""
    named = sorted((call for call in holder.calls if call.label), key=lambda call: -call.for_s)
    shown = [f"{cut(call.label, 40)} ({span(call.for_s)})" for call in named[:_SHOWN]]
    more = len(holder.calls) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if shown and more else "")


def bounds_text(limit: Limit) -> str:
    parts = [] if limit.in_flight is None else [f"{limit.in_flight} in flight"]
    units = [f"{n} {unit} in flight" for unit, n in limit.in_flight_units.items()]
    return ", ".join([*parts, *units, *map(str, limit.windows)])


def value_text(field: str, value: object) -> str:
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{n} {unit}" for unit, n in value.items())
    if field == "windows" and isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, tuple):
        return ", ".join(f"{each:g}" for each in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _of(used: int, bound: int | None) -> str:
    return str(used) if bound is None else f"{used}/{bound}"


def _per(window: WindowUsage | Window) -> str:
    return f"{window.unit} per {window.per_s:g} s"


def _share(utilisation: float | None) -> str:
    return "" if utilisation is None else f" ({utilisation:.0%})"


def table(usages: Sequence[Usage]) -> None:
    output.table(LIST_COLUMNS, [list_row(each) for each in usages])
