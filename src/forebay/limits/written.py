"""Reads limits as people write them: in a file, in variables, on a command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from forebay.errors import BadInput
from forebay.ids import shown
from forebay.model.limit import CALLS, FIELDS, Limit, Window

VARIABLE = "FOREBAY_LIMIT_"
Number = TypeVar("Number", int, float)
_WINDOW = re.compile(r"(\d{1,12})\s*/\s*(\d{1,9}(?:\.\d+)?|\.\d+)\s*(?::\s*(\S+))?", re.ASCII)
_NONE = "none"
_REMEDY = "Write N/SECONDS, such as 190/60, or N/SECONDS:UNIT, such as 40000/60:tokens."


def window(text: str) -> Window:
    """190/60, or 40000/60:tokens."""
    found = _WINDOW.fullmatch(text.strip())
    if not found:
        raise BadInput(f"{shown(text)} is no window.", remedy=_REMEDY)
    return Window(int(found[1]), float(found[2]), found[3] or CALLS)


def windows(texts: Iterable[str]) -> tuple[Window, ...]:
    """Several, also with commas between them; `none` alone is no window at all."""
    parts = [part.strip() for text in texts for part in text.split(",")]
    return () if parts == [_NONE] else tuple(window(part) for part in parts)


def whole(what: str, text: str) -> int | None:
    """A whole number, or `none`."""
    if text.strip().lower() == _NONE:
        return None
    return _number(what, text, int, "a whole number, or none")


def in_flight(what: str, text: str) -> int | dict[str, int | None] | None:
    """400, none, or with bounds of other units: 400,5000:pages."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) == 1 and ":" not in parts[0]:
        return whole(what, text)
    bounds: dict[str, int | None] = {}
    for part in parts:
        count, _, unit = part.partition(":")
        unit = unit.strip() or CALLS
        if unit in bounds:
            raise BadInput(f"{what} is {shown(text)}: it bounds {unit} twice.", remedy="Bound each unit once.")
        bounds[unit] = _number(what, count, int, "whole numbers, such as 400,5000:pages")
    return bounds


def unit_bounds(what: str, text: str) -> dict[str, int]:
    """5000:pages, or several with commas between them; `none` alone is no bound at all."""
    if text.strip().lower() == _NONE:
        return {}
    bounds = in_flight(what, text)
    if not isinstance(bounds, dict):
        raise BadInput(f"{what} is {shown(text)}.", remedy="Write N:UNIT, such as 5000:pages, or none.")
    return {unit: count for unit, count in bounds.items() if count is not None}


def number(what: str, text: str) -> float:
    return _number(what, text, float, "seconds, such as 60 or 0.5")


def steps(text: str) -> tuple[float, ...]:
    """Seconds with commas between them."""
    return tuple(number("cooldown_s", each) for each in text.split(","))


def _number(what: str, text: str, kind: Callable[[str], Number], wanted: str) -> Number:
    try:
        # Python would read 1_000 too, which nobody means.
        return kind(text.replace("_", "?"))
    except ValueError:
        raise BadInput(f"{what} is {shown(text)}.", remedy=f"Give {wanted}.") from None


_READERS: dict[str, Callable[[str], object]] = {
    "in_flight": lambda text: in_flight("in_flight", text),
    "in_flight_units": lambda text: unit_bounds("in_flight_units", text),
    "windows": lambda text: windows([text]),
    "cooldown_s": steps,
    "breaker_after": lambda text: whole("breaker_after", text),
    "when_store_down": str.strip,
    "on_disconnect": str.strip,
    "share_processes": lambda text: whole("share_processes", text),
}


def from_table(name: str, table: object) -> dict[str, Any]:
    """The fields of a limit from TOML; each is checked, but not whether they are enough to define one."""
    if not isinstance(table, Mapping):
        raise BadInput(f"limits.{name} is {shown(table)}.", remedy=f"Write a table: [limits.{name}], in_flight = 5.")
    values = {str(field): value for field, value in table.items()}
    if "windows" in values:
        values["windows"] = _table_windows(name, values["windows"])
    if isinstance(values.get("cooldown_s"), list):
        values["cooldown_s"] = tuple(values["cooldown_s"])
    return checked(name, values)


def _table_windows(name: str, given: object) -> tuple[Window, ...]:
    remedy = f'Write windows = [[190, 60], [40000, 60, "tokens"]] in [limits.{name}].'
    if not isinstance(given, list):
        raise BadInput(f"windows is {shown(given)}.", remedy=remedy)
    made = []
    for each in given:
        if isinstance(each, str):
            made.append(window(each))
            continue
        try:
            made.append(Window(*each))
        except TypeError:
            raise BadInput(f"A window is {shown(each)}.", remedy=remedy) from None
    return tuple(made)


def from_environment(environ: Mapping[str, str], known: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
    """Fields of limits by name: FOREBAY_LIMIT_ADOBE_IN_FLIGHT=150. `known` tells which names have a - or a dot."""
    spelled = {_spelled(name): name for name in known}
    found: dict[str, dict[str, Any]] = {}
    for variable in sorted(environ):
        # An empty variable is one that a shell or a compose file left unset.
        if not variable.startswith(VARIABLE) or not environ[variable]:
            continue
        rest = variable.removeprefix(VARIABLE)
        field = next((each for each in FIELDS if rest.endswith(f"_{each.upper()}")), None)
        if field is None or len(rest) <= len(field) + 1:
            raise BadInput(
                f"{variable} names no field of a limit.", remedy=f"Write {VARIABLE}<NAME>_IN_FLIGHT, or _WINDOWS."
            )
        part = rest[: -len(field) - 1]
        name = spelled.get(part, part.lower())
        try:
            value = _READERS.get(field, lambda text, field=field: number(field, text))(environ[variable])
            found[name] = checked(name, {**found.get(name, {}), field: value})
        except BadInput as error:
            raise BadInput(f"{variable}: {error.what}", remedy=error.remedy) from None
    return found


def _spelled(name: str) -> str:
    return re.sub("[.-]", "_", name).upper()


def checked(name: str, values: dict[str, Any]) -> dict[str, Any]:
    for field in values:
        if field not in FIELDS:
            raise BadInput(
                f"Limit {name!r} has {shown(field)}, which is no field of one.", remedy=f"Fields: {', '.join(FIELDS)}."
            )
    # What is said together must hold together; a bound may come from elsewhere.
    bounded = values.get("in_flight") is not None or values.get("windows") or values.get("in_flight_units")
    Limit(name, **(values if bounded else {**values, "in_flight": 1}))
    return values
