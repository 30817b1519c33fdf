"""How a limit stands: what is used of each bound, who holds it, who waits, and what keeps them."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from forebay.limits.works_on import split_label
from forebay.model.limit import Limit
from forebay.model.limit_record import GrantedCall, Record, Terms
from forebay.rules import cooldown, forecast, kept_places, limit_actions, limit_state
from forebay.rules import window_log as logs


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowUsage:
    """`next_in_s`: when the next unit fits, 0 being now.

    `counted_s` is how long a grant that is made now counts: longer than `per_s`, since calls arrive after their grant.
    """

    unit: str
    per_s: float
    n: int
    used: int
    free: int
    next_in_s: float
    counted_s: float

    @property
    def utilisation(self) -> float:
        return self.used / self.n if self.n else 0.0

    @property
    def cost(self) -> float:
        """The part of the rate that is lost because grants count for longer than the window."""
        return 1 - self.per_s / self.counted_s


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitUsage:
    """A unit of the calls in progress, and its bound."""

    unit: str
    n: int
    used: int
    free: int

    @property
    def utilisation(self) -> float:
        return self.used / self.n if self.n else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One call in progress: since when, what it works on, if its caller said so, and the task that makes it, if any."""

    for_s: float
    label: str
    units: dict[str, int]
    job_id: str | None = None
    task_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One process; `alive` is False when its session has ended and only its calls still count.

    A process's calls that it has `cut_off` stand apart from those that it waits for. The slot of a kept `place` has a
    holder of its own.
    """

    session: str
    label: str
    place: str
    alive: bool
    cut_off: bool
    calls: tuple[Holding, ...]
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceUsage:
    """A kept place that waits. Its owner was told to come back in `back_in_s`, and is late where that is less than 0.

    The place ends in `ends_in_s` unless its owner asks again. `has_slot`: a slot is kept for it just now;
    `missed_count`: how often one was kept in vain since the place stands where it stands.
    """

    place: str
    session: str
    label: str
    key: str
    back_in_s: float
    ends_in_s: float
    has_slot: bool
    missed_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUsage:
    """What the callers of one key hold and wait for, in all processes."""

    key: str
    in_flight: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerUsage:
    """One source of a limit's definition that is in force; `for_s`: how long yet, None being for good."""

    name: str
    values: dict[str, object]
    for_s: float | None
    who: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """`blocked_by` is empty when a call could start now, `eta_s` is None where nobody can tell.

    `cut_off`: how many of the calls in flight nobody waits for any more, while the provider may still work on them.
    `keys`: the use by each key that callers gave, the busiest first. `places` are those that are kept, in the order of
    the line.
    """

    name: str
    limit: Limit
    sources: dict[str, str]
    layers: tuple[LayerUsage, ...]
    in_flight: int
    cut_off: int
    free: int | None
    units_in_flight: tuple[UnitUsage, ...]
    windows: tuple[WindowUsage, ...]
    waiting: int
    sessions: int
    blocked_by: tuple[str, ...]
    eta_s: float | None
    paused: bool
    paused_for_s: float | None
    note: str
    paused_by: str
    cooldown: str
    cooldown_for_s: float
    level: int
    ramping: bool
    mean_call_s: float
    degraded: bool
    generation: int
    version: int
    holders: tuple[Holder, ...]
    keys: tuple[KeyUsage, ...]
    places: tuple[PlaceUsage, ...]

    @property
    def utilisation(self) -> float | None:
        """Of in-flight; None where it is not bounded."""
        bound = self.limit.in_flight
        return None if bound is None else self.in_flight / bound if bound else 0.0

    def plain(self) -> dict[str, Any]:
        """As JSON has it, with what is worked out from the rest."""
        made = asdict(self) | {"utilisation": self.utilisation}
        for window, each in zip(made["windows"], self.windows, strict=True):
            window["utilisation"] = each.utilisation
        for unit, unit_usage in zip(made["units_in_flight"], self.units_in_flight, strict=True):
            unit["utilisation"] = unit_usage.utilisation
        return made


def usage_of(name: str, record: Record, raw: int, *, degraded: bool = False) -> Usage:
    """As it would be for somebody who asked now."""
    now = limit_state.logical(record, raw)
    terms = limit_state.terms_at(record, now)
    limit_state.tidy(record, terms, now)
    used = limit_state.in_flight(record)
    waiting = sum(place.run["caller_count"] for place in limit_state.line(record))
    eta, by = forecast.foretold(record, terms, forecast.all_ahead(record, terms), {"calls": 1}, now, ends=True)
    cool = record["cooldown"]
    return Usage(
        name=name,
        limit=limit_actions.limit_of(name, record["layers"], now),
        sources=limit_actions.source_of(record["layers"], now),
        layers=_layers(record, now),
        in_flight=used,
        cut_off=limit_state.cut_off_count(record),
        free=None if terms["in_flight"] < 0 else max(0, terms["in_flight"] - used),
        units_in_flight=_units_in_flight(record, terms),
        windows=_windows(record, terms, now),
        waiting=waiting,
        sessions=sum(
            seat["ends_at"] > now and not kept_places.is_waiting(seat) for seat in record["sessions"].values()
        ),
        blocked_by=tuple(by),
        eta_s=None if eta >= limit_state.FOREVER // 2 else eta / 1000,
        paused=limit_state.gate(record, terms, now)[0] == limit_state.PAUSED,
        paused_for_s=(record["paused_until"] - now) / 1000 if record["paused_until"] > now else None,
        note=record["pause_note"],
        paused_by=record.get("paused_by", ""),
        cooldown=cool["kind"] if cool["ends_at"] > now else "",
        cooldown_for_s=max(0, cool["ends_at"] - now) / 1000,
        level=cool["level"],
        ramping=cool["ends_at"] <= now and cooldown.room(record, terms, now) < cooldown.MANY,
        mean_call_s=record["mean_call_ms"] / 1000,
        degraded=degraded,
        generation=record["generation"],
        version=record["version"],
        holders=_holders(record, now),
        keys=_keys(record),
        places=_places(record, now),
    )


def _layers(record: Record, now: int) -> tuple[LayerUsage, ...]:
    """The highest first."""
    known = [layer for layer in record["layers"] if layer["ends_at"] < 0 or layer["ends_at"] > now]
    return tuple(
        LayerUsage(
            name=layer["name"],
            values=layer["values"],
            for_s=None if layer["ends_at"] < 0 else (layer["ends_at"] - now) / 1000,
            who=layer["set_by"],
            note=layer["note"],
        )
        for layer in sorted(known, key=lambda each: limit_actions.LAYERS.index(each["name"]), reverse=True)
    )


def _units_in_flight(record: Record, terms: Terms) -> tuple[UnitUsage, ...]:
    sums = limit_state.in_flight_sums(record, terms)
    return tuple(
        UnitUsage(unit=bound["unit"], n=bound["n"], used=used, free=max(0, bound["n"] - used))
        for bound, used in zip(terms["in_flight_units"], sums.values(), strict=True)
    )


def _windows(record: Record, terms: Terms, now: int) -> tuple[WindowUsage, ...]:
    found = []
    for bound in terms["windows"]:
        log = record["window_logs"].get(logs.name(bound), {"sum": 0, "entries": []})
        wide = logs.width(bound, terms)
        next_in = logs.free_in(log, now, wide, bound["n"], 1) if bound["n"] else 0
        found.append(
            WindowUsage(
                unit=bound["unit"],
                per_s=bound["per_ms"] / 1000,
                n=bound["n"],
                used=log["sum"],
                free=max(0, bound["n"] - log["sum"]),
                next_in_s=next_in / 1000,
                counted_s=(bound["per_ms"] + limit_state.late_now(record) + terms["transit_ms"] + 1) / 1000,
            )
        )
    return tuple(found)


def _holding(call: GrantedCall, now: int) -> Holding:
    label, task = split_label(call["label"])
    job_id, task_id = task or (None, None)
    return Holding(
        for_s=(now - call["granted_at"]) / 1000, label=label, units=call["units"], job_id=job_id, task_id=task_id
    )


def _holders(record: Record, now: int) -> tuple[Holder, ...]:
    return tuple(
        Holder(
            session=sid,
            label=seat["label"],
            place=seat["place"]["name"] if "place" in seat else "",
            alive=seat["ends_at"] > now,
            cut_off=limit_state.is_cut_off(sid),
            calls=tuple(_holding(call, now) for call in seat["calls"]),
            waiting=sum(run["caller_count"] for run in seat["runs"]),
        )
        for sid, seat in sorted(record["sessions"].items())
        if not kept_places.is_waiting(seat)
    )


def _places(record: Record, now: int) -> tuple[PlaceUsage, ...]:
    waiting = [(sid, seat) for sid, seat in record["sessions"].items() if kept_places.is_waiting(seat)]
    waiting.sort(key=lambda each: (each[1]["place"]["virtual_start"], each[1]["place"]["arrival_number"]))
    return tuple(
        PlaceUsage(
            place=seat["place"]["name"],
            session=sid,
            label=seat["label"],
            key=next((each.get("key", "") for each in (*seat["runs"], *seat["calls"])), ""),
            back_in_s=(seat["place"]["told_at"] - now) / 1000,
            ends_in_s=(seat["ends_at"] - now) / 1000,
            has_slot=bool(seat["calls"]),
            missed_count=seat["place"]["missed_count"],
        )
        for sid, seat in waiting
    )


def _keys(record: Record) -> tuple[KeyUsage, ...]:
    held: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for seat in record["sessions"].values():
        held.update(call.get("key", "") for call in seat["calls"])
        for run in seat["runs"]:
            waiting[run["key"]] += run["caller_count"]
    names = sorted({*held, *waiting} - {""}, key=lambda key: (-held[key], -waiting[key], key))
    return tuple(KeyUsage(key=key, in_flight=held[key], waiting=waiting[key]) for key in names)
