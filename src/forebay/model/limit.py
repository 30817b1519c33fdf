"""A limit as people define it: how many calls at once, how many units in which windows, and what happens in trouble."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from forebay.errors import BadInput
from forebay.ids import shown
from forebay.model.names import check_name

CALLS = "calls"
MAX_N = 1_000_000_000
MAX_PER_S = 400 * 86_400.0
MAX_WINDOWS = 8
_MAX_S = 86_400.0
_LEAST_S = 0.001
_LEAST_START_S = 0.01
_BEATS = 3
_HEARTBEAT_S = 4.0
MAX_PROCESSES = 100_000

Down = Literal["wait", "share", "fail"]
Disconnect = Literal["continues", "stops"]


def check_seconds(what: str, value: object, *, least: float = 0.0, most: float = _MAX_S) -> float:
    # NaN is in no range.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise BadInput(f"{what} is {shown(value)}.", remedy=f"Give seconds, from {least:g} to {most:.0f}.")
    return float(value)


def _bound(what: str, value: object, zero: str = ", which pauses the limit,") -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_N:
        raise BadInput(f"{what} is {shown(value)}.", remedy=f"Give a whole number from 0{zero} to {MAX_N}.")
    return value


@dataclass(frozen=True, slots=True)
class Window:
    """At most `n` units in any `per_s` seconds, however one looks at them."""

    n: int
    per_s: float
    unit: str = CALLS

    def __post_init__(self) -> None:
        _bound("A window's n", self.n)
        object.__setattr__(self, "per_s", check_seconds("A window's per_s", self.per_s, least=_LEAST_S, most=MAX_PER_S))
        check_name("unit", self.unit)

    def __str__(self) -> str:
        return f"{self.n} {self.unit} per {self.per_s:g} s"


@dataclass(frozen=True, slots=True)
class Limit:
    """A budget of one provider account. What is not said is not bounded; 0 pauses it.

    `in_flight` bounds the calls in progress. With a dict, such as `{"calls": 400, "pages": 5000}`, it also bounds other
    units of the calls in progress, which are then in `in_flight_units`: a call counts the units that it names, from its
    grant until it is over.

    `call_timeout_s` is the longest that a call of yours may take: a slot whose process died counts that long, since
    the provider may still work on it, unless `on_disconnect="stops"`.

    `heartbeat_s` follows from `lease_s` unless you set it. `share_processes` is the number of processes that share the
    limit: under `when_store_down="share"`, each of them continues with that part of the limit while the store is gone.
    """

    name: str
    in_flight: int | None = None
    windows: Sequence[Window] = ()
    call_timeout_s: float = 60.0
    lease_s: float = 15.0
    heartbeat_s: float = 0.0
    start_within_s: float = 0.25
    transit_s: float = 0.05
    when_store_down: Down = "wait"
    on_disconnect: Disconnect = "continues"
    cooldown_s: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0, 30.0)
    max_cooldown_s: float = 600.0
    breaker_after: int = 3
    share_processes: int | None = None
    in_flight_units: Mapping[str, int] = field(default_factory=dict, hash=False)

    if TYPE_CHECKING:  # `in_flight` takes more than it gives back

        def __init__(  # noqa: PLR0917 - the fields
            self,
            name: str,
            in_flight: int | Mapping[str, int] | None = None,
            windows: Sequence[Window] = (),
            call_timeout_s: float = 60.0,
            lease_s: float = 15.0,
            heartbeat_s: float = 0.0,
            start_within_s: float = 0.25,
            transit_s: float = 0.05,
            when_store_down: Down = "wait",
            on_disconnect: Disconnect = "continues",
            cooldown_s: tuple[float, ...] = ...,
            max_cooldown_s: float = 600.0,
            breaker_after: int = 3,
            share_processes: int | None = None,
            in_flight_units: Mapping[str, int] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        check_name("limit", self.name)
        in_flight, units = split_in_flight(self.in_flight, self.in_flight_units)
        object.__setattr__(self, "in_flight", in_flight)
        object.__setattr__(self, "in_flight_units", units)
        object.__setattr__(self, "windows", _windows(self.windows))
        if self.in_flight is None and not self.windows and not self.in_flight_units:
            raise BadInput(
                f"Limit {self.name!r} bounds nothing.", remedy="Give it in_flight=…, windows=[Window(…)], or both."
            )
        for name in ("call_timeout_s", "lease_s", "max_cooldown_s"):
            object.__setattr__(self, name, check_seconds(name, getattr(self, name), least=_LEAST_S))
        heartbeat_s = check_seconds("heartbeat_s", self.heartbeat_s) or usual_heartbeat_s(self.lease_s)
        object.__setattr__(self, "heartbeat_s", heartbeat_s)
        # Below a round trip to the store no call could ever start in time.
        start_s = check_seconds("start_within_s", self.start_within_s, least=_LEAST_START_S)
        object.__setattr__(self, "start_within_s", start_s)
        object.__setattr__(self, "transit_s", check_seconds("transit_s", self.transit_s))
        object.__setattr__(self, "cooldown_s", _steps(self.cooldown_s))
        _bound("breaker_after", self.breaker_after, ", which never opens it,")
        _one_of("when_store_down", self.when_store_down, ("wait", "share", "fail"))
        _one_of("on_disconnect", self.on_disconnect, ("continues", "stops"))
        if self.share_processes is not None:
            _check_processes(self.share_processes)
        if self.heartbeat_s * _BEATS > self.lease_s + _LEAST_S:
            raise BadInput(
                f"Limit {self.name!r} has a lease of {self.lease_s:g} s but a heartbeat of {self.heartbeat_s:g} s: "
                "one lost beat or two would free its slots.",
                remedy=f"Raise lease_s to at least {self.heartbeat_s * _BEATS:g}, or leave heartbeat_s out.",
            )


def split_in_flight(in_flight: object, units: object) -> tuple[int | None, dict[str, int]]:
    """Return the bound of calls in progress, and those of other units; a dict in `in_flight` has all of them."""
    if isinstance(in_flight, Mapping):
        bounds = {**in_flight}
        in_flight, units = bounds.pop(CALLS, None), bounds
    calls = None if in_flight is None else _bound("in_flight", in_flight)
    if not isinstance(units, Mapping):
        raise BadInput(f"in_flight_units is {shown(units)}.", remedy='Give a dict, such as {"pages": 5000}.')
    if CALLS in units:
        raise BadInput("in_flight_units bounds calls.", remedy="Bound calls by in_flight.")
    if len(units) > MAX_WINDOWS:
        raise BadInput(f"{len(units)} units are bounded in flight.", remedy=f"Bound at most {MAX_WINDOWS}.")
    return calls, {check_name("unit", unit): _bound(f"in_flight of {unit}", units[unit]) for unit in sorted(units)}


def usual_heartbeat_s(lease_s: float) -> float:
    """Return the heartbeat of a lease: two beats may be lost before the lease ends."""
    return min(_HEARTBEAT_S, lease_s / _BEATS)


def _check_processes(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_PROCESSES:
        raise BadInput(
            f"share_processes is {shown(value)}.",
            remedy=f"Give the number of processes that share the limit, from 1 to {MAX_PROCESSES}.",
        )


def _windows(value: object) -> tuple[Window, ...]:
    if isinstance(value, Window):
        value = (value,)
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
        raise BadInput(f"windows is {shown(value)}.", remedy="Give a list: [Window(190, per_s=60)].")
    found = tuple(value)
    if not all(isinstance(each, Window) for each in found):
        raise BadInput("windows holds something else.", remedy="Give a list of Window(n, per_s=…).")
    if len(found) > MAX_WINDOWS or len({(each.unit, each.per_s) for each in found}) < len(found):
        raise BadInput(
            "There are too many windows, or two of the same unit and length.",
            remedy=f"Give at most {MAX_WINDOWS}, and of two for the same unit and seconds keep the smaller.",
        )
    return found


def _steps(value: object) -> tuple[float, ...]:
    if isinstance(value, (int, float)):
        value = (value,)
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)) or not (steps := tuple(value)):
        raise BadInput(f"cooldown_s is {shown(value)}.", remedy="Give seconds for each step: (2, 4, 8, 16, 30).")
    return tuple(check_seconds("cooldown_s", step, least=_LEAST_S) for step in steps)


def _one_of(what: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise BadInput(f"{what} is {shown(value)}.", remedy=f"Choose one of: {', '.join(known)}.")


FIELDS = tuple(field.name for field in fields(Limit) if field.name != "name")


def check_units(given: object) -> dict[str, int]:
    """What one call takes; a call is one call unless it says otherwise."""
    if given is None:
        return {CALLS: 1}
    if not isinstance(given, Mapping):
        raise BadInput(f"units is {shown(given)}.", remedy='Give a dict, such as {"pages": 15}.')
    units: dict[str, Any] = {CALLS: 1, **given}
    for unit, count in units.items():
        check_name("unit", unit)
        _bound(f"units[{unit!r}]", count, "")
    return units
