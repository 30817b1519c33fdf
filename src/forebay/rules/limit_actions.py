"""Decides what people and programs do to a limit: its layers of configuration, pause, resume, reset."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from forebay.errors import BadInput
from forebay.ids import shown
from forebay.model.limit import FIELDS, Limit, Window, split_in_flight
from forebay.model.limit_record import Era, Layer, Record, Terms
from forebay.rules import cooldown, limit_state
from forebay.rules import window_log as logs

_USUAL_LEASE_S = Limit("usual", in_flight=1).lease_s
LAYERS = ("preset", "code", "file", "operator", "override")


def values_of(limit: Limit) -> dict[str, object]:
    """A whole definition as a layer keeps it."""
    usual = Limit("usual", in_flight=1, lease_s=limit.lease_s)
    defaults = {name: getattr(usual, name) for name in FIELDS} | {"in_flight": None, "lease_s": _USUAL_LEASE_S}
    return checked({name: getattr(limit, name) for name in FIELDS if getattr(limit, name) != defaults[name]})


def checked(values: dict[str, Any]) -> dict[str, object]:
    """Some fields of a limit as JSON, which they may be already; an unknown one is refused."""
    for name in values:
        if name not in FIELDS:
            raise BadInput(f"A limit has no {shown(name)}.", remedy=f"It has: {', '.join(FIELDS)}.")
    stored: dict[str, object] = dict(values)
    if isinstance(values.get("in_flight"), Mapping) or "in_flight_units" in values:
        in_flight, units = split_in_flight(values.get("in_flight"), values.get("in_flight_units", {}))
        stored["in_flight_units"] = units
        if "in_flight" in values:
            stored["in_flight"] = in_flight
    if "windows" in values:
        windows = Limit("windows", in_flight=1, windows=_windows(values["windows"])).windows
        stored["windows"] = [[window.n, window.per_s, window.unit] for window in windows]
    if "cooldown_s" in values:
        stored["cooldown_s"] = list(Limit("steps", in_flight=1, cooldown_s=values["cooldown_s"]).cooldown_s)
    return stored


def _windows(given: Any) -> Any:  # noqa: ANN401 - what is no list of windows is refused by the limit
    if not isinstance(given, (list, tuple)):
        return given
    return tuple(Window(*each) if isinstance(each, (list, tuple)) and len(each) in {2, 3} else each for each in given)


def limit_of(name: str, layers: list[Layer], now: int) -> Limit:
    """What the layers that are in force come to; of a field that several name, the highest counts."""
    fields: dict[str, Any] = {}
    for layer in _in_force(layers, now):
        fields |= layer["values"]
    if "windows" in fields:
        fields["windows"] = _windows(fields["windows"])
    if "cooldown_s" in fields:
        fields["cooldown_s"] = tuple(fields["cooldown_s"])
    return Limit(name, **fields)


def values_in(record: Record, layer_name: str) -> dict[str, object]:
    """What one layer says, nothing where there is none."""
    return next((layer["values"] for layer in record["layers"] if layer["name"] == layer_name), {})


def source_of(layers: list[Layer], now: int) -> dict[str, str]:
    """For each field the layer that it comes from, "default" where none names it."""
    found = dict.fromkeys(FIELDS, "default")
    for layer in _in_force(layers, now):
        found |= dict.fromkeys(layer["values"], layer["name"])
    return found


def _in_force(layers: list[Layer], now: int) -> list[Layer]:
    known = [layer for layer in layers if layer["ends_at"] < 0 or layer["ends_at"] > now]
    return sorted(known, key=lambda layer: LAYERS.index(layer["name"]))


def terms_of(limit: Limit) -> Terms:
    """In whole milliseconds, never shorter than was said."""
    return {
        "in_flight": -1 if limit.in_flight is None else limit.in_flight,
        "in_flight_units": [{"n": n, "unit": unit} for unit, n in limit.in_flight_units.items()],
        "windows": [{"n": window.n, "per_ms": _ms(window.per_s), "unit": window.unit} for window in limit.windows],
        "call_timeout_ms": _ms(limit.call_timeout_s),
        "lease_ms": _ms(limit.lease_s),
        "heartbeat_ms": _ms(limit.heartbeat_s),
        "start_within_ms": _ms(limit.start_within_s),
        "transit_ms": _ms(limit.transit_s),
        "stops_on_disconnect": int(limit.on_disconnect == "stops"),
        "cooldown_steps_ms": [_ms(step) for step in limit.cooldown_s],
        "max_cooldown_ms": _ms(limit.max_cooldown_s),
        "breaker_after": limit.breaker_after,
        "when_store_down": limit.when_store_down,
        "share_processes": limit.share_processes or 0,
    }


def _ms(seconds: float) -> int:
    return math.ceil(round(seconds * 1000, 6))


def configured(record: Record | None, name: str, layer: Layer, raw: int, *, version: int = 0) -> Record | None:
    """The record with this layer in it; None when it says nothing new.

    `version` is the highest that the caller has seen of it: a store that has none any more has forgotten.
    """
    forgot = record is None and version > 0
    if record is None:
        record = limit_state.new_record(raw, version)
    now = limit_state.logical(record, raw)
    if _says(record, layer):
        return None
    layers = [each for each in record["layers"] if each["name"] != layer["name"]]
    # Made before anything is changed: what does not hold together is refused.
    eras = _eras(name, [*layers, layer], now)
    record["layers"] = [*layers, layer]
    _enter(record, eras, now)
    if forgot:
        limit_state.hold_back(record, eras[0]["terms"], now)
    return record


def _says(record: Record, layer: Layer) -> bool:
    """Return whether the record has this layer, with these values and for good; one with an end always counts anew."""
    return any(
        each["name"] == layer["name"]
        and each["values"] == layer["values"]
        and each["ends_at"] == layer["ends_at"] == -1
        for each in record["layers"]
    )


def cleared(record: Record, name: str, layer_name: str, raw: int) -> Record | None:
    """Without that layer; None when there was none."""
    now = limit_state.logical(record, raw)
    layers = [each for each in record["layers"] if each["name"] != layer_name]
    if len(layers) == len(record["layers"]):
        return None
    if not layers:
        raise BadInput(
            f"Nothing else defines limit {name!r}.", remedy="Define it in code or set all of it, before you clear this."
        )
    eras = _eras(name, layers, now)
    record["layers"] = layers
    _enter(record, eras, now)
    return record


def _eras(name: str, layers: list[Layer], now: int) -> list[Era]:
    """The terms from now on, and how they change when temporary layers end."""
    turns = sorted({layer["ends_at"] for layer in layers if layer["ends_at"] > now})
    return [
        {"ends_at": end, "terms": terms_of(limit_of(name, layers, start))} for start, end in pairwise([now, *turns, -1])
    ]


def _enter(record: Record, eras: list[Era], now: int) -> None:
    """Usage is kept: a window that is new counts what is known of its unit."""
    before = record["window_logs"]
    sources = log_sources(record["eras"], eras, before)
    carried = carry_over(record["eras"], eras)
    record["window_logs"] = {}
    for name, source in sources.items():
        log = before.get(source, {"sum": 0, "entries": []})
        items = [each if at % 2 else each + carried.shift for at, each in enumerate(log["entries"])]
        record["window_logs"][name] = {"sum": log["sum"], "entries": items}
    record["eras"] = eras
    record["terms_version"] += 1
    record["version"] += 1
    _count_open_calls(record, [name for name, source in sources.items() if not source], carried, now)


class CarryOver(NamedTuple):
    """What earlier grants mean under new terms.

    Their calls may start `shift` later after the grant than those of new grants, so they count that much longer. A call
    that was granted in the last `young` ms may not have started yet; it arrives within `transit` of its start.
    """

    shift: int
    young: int
    transit: int


def carry_over(before: list[Era], after: list[Era]) -> CarryOver:
    """Return it; where no window counts calls, nothing changes for those that were granted before."""
    late = max((limit_state.late_after(era["terms"]) for era in before), default=0)
    transit = max((era["terms"]["transit_ms"] for era in before), default=0)
    has_windows = any(era["terms"]["windows"] for era in after)
    shift = late - min(limit_state.late_after(era["terms"]) for era in after) if has_windows else 0
    return CarryOver(max(0, shift), late, transit)


def _count_open_calls(record: Record, windows: list[str], carried: CarryOver, now: int) -> None:
    """Count calls that are out in the windows that have no history, and wait for those that may still start late."""
    calls = sorted(
        (call for seat in record["sessions"].values() for call in seat["calls"]), key=lambda call: call["counted_at"]
    )
    for window in limit_state.counted(record):
        if window.name in windows:
            for call in calls:
                at = call["counted_at"] + carried.shift
                logs.add(limit_state.log_of(record, window.name), at, call["units"].get(window.unit, 0), window.wide)
    record["last_counted_at"] += carried.shift
    youngest = calls[-1]["counted_at"] if calls else -limit_state.FOREVER
    if carried.shift and youngest + carried.young > now:
        now = max(now, youngest)
        record["held_back_until"] = max(record["held_back_until"], now + carried.young + carried.transit)


def log_sources(before: list[Era], after: list[Era], names: Iterable[str]) -> dict[str, str]:
    """For each window of the new terms, the log that it continues, of those by these names; empty if there is none."""
    # A log of terms that are over has not gone on counting.
    counted = {logs.name(bound) for era in before for bound in era["terms"]["windows"]}
    known = [name for name in names if name in counted]
    found: dict[str, str] = {}
    for era in after:
        for bound in era["terms"]["windows"]:
            name = logs.name(bound)
            alike = [each for each in known if each.partition("/")[0] == bound["unit"]]
            longest = max(alike, key=lambda each: int(each.partition("/")[2]), default="")
            found[name] = name if name in known else longest
    return found


def paused(record: Record, raw: int, *, for_ms: int | None, note: str, who: str = "") -> Record:
    now = limit_state.logical(record, raw)
    record["paused_until"] = 0 if for_ms is None else now + for_ms
    record["pause_note"] = note
    record["paused_by"] = who
    record["version"] += 1
    return record


def resumed(record: Record, raw: int) -> Record:
    """Ends a pause, and a cool-down, breaker or quota park too: somebody knows that the provider is well."""
    limit_state.logical(record, raw)
    record["paused_until"] = -1
    record["pause_note"] = ""
    record["paused_by"] = ""
    record.pop("reports", None)
    cooldown.lift(record)
    record["version"] += 1
    return record


def forgotten(record: Record, raw: int, *, everything: bool) -> tuple[Record, int]:
    """Drop what sessions hold that have ended, or all of it; and how many calls that were."""
    now = limit_state.logical(record, raw)
    before = limit_state.in_flight(record)
    for sid in list(record["sessions"]):
        seat = record["sessions"][sid]
        if everything or seat["ends_at"] <= now:
            seat["calls"] = []
            seat["unconfirmed"] = []
            if seat["ends_at"] <= now:
                for run in seat["runs"]:
                    limit_state.left_line(record, run["key"])
                del record["sessions"][sid]
    if everything:
        record.pop("refused_callers", None)
        record["held_back_until"] = 0
        for log in record["window_logs"].values():
            log["sum"] = 0
            log["entries"] = []
        cooldown.lift(record)
    record["version"] += 1
    return record, before - limit_state.in_flight(record)
