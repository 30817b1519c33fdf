"""Settings as they are spelled on a command line: quotas, latencies and faults in a word each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from forebay.errors import BadInput
from forebay.ids import shown

_WINDOW: Final = re.compile(r"(?P<n>\d+)/(?P<per_s>\d+(?:\.\d+)?)(?::(?P<unit>[a-z]+))?(?:@(?P<edge>sliding|fixed))?")
_MONTH: Final = re.compile(r"(?P<n>\d+)/month(?::(?P<unit>[a-z]+))?")
_RANGE: Final = re.compile(r"(\d+(?:\.\d+)?)\.\.(\d+(?:\.\d+)?)")
_LOGNORMAL: Final = re.compile(r"lognormal:(\d+(?:\.\d+)?)(?:,(\d+(?:\.\d+)?))?")
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)?")


def quotas(given: Iterable[str]) -> dict[str, Any]:
    """`docai=5,120/60` is 5 in flight and 120 calls per 60 s; `adobe=25/60,500/month:transactions`."""
    found = {}
    for text in given:
        name, _, bounds = text.partition("=")
        found[name] = _quota(text, bounds.split(","))
    return found


def latencies(given: Iterable[str]) -> dict[str, Any]:
    """`docai=0.8`, `docai=0.2..1.5`, `adobe.job=lognormal:8,0.5`; without a name, of all routes."""
    found = {}
    for text in given:
        name, equals, spec = text.rpartition("=")
        found[name if equals else "*"] = _latency(text, spec)
    return found


def faults(given: Iterable[str]) -> list[dict[str, Any]]:
    """`docai=429 form=date after=3` is every call; `docai@0.05=500` five in a hundred; `adobe.status#2,3=401` those."""
    found = []
    for text in given:
        where, _, fault = text.partition("=")
        if not fault:
            raise BadInput(
                f"{shown(text)} is not a fault of a route.", remedy="Write ROUTE=FAULT, such as docai@0.05=429."
            )
        rule: dict[str, Any] = {"fault": fault}
        where, _, numbers = where.partition("#")
        where, _, share = where.partition("@")
        if numbers:
            rule["calls"] = [_whole(text, each) for each in numbers.split(",")]
        if share:
            rule["share"] = _number(text, share)
        found.append(rule | {"route": where})
    return found


def _quota(text: str, bounds: list[str]) -> dict[str, Any]:
    quota: dict[str, Any] = {"windows": []}
    for each in bounds:
        window, month = _WINDOW.fullmatch(each), _MONTH.fullmatch(each)
        if each.isascii() and each.isdecimal():
            quota["in_flight"] = int(each)
        elif month:
            quota["month"] = _given(month)
        elif window:
            quota["windows"].append(_given(window))
        else:
            raise BadInput(
                f"{shown(text)} is not a quota.", remedy="Write API=IN_FLIGHT,N/SECONDS[:UNIT][@fixed],N/month[:UNIT]."
            )
    return quota


def _latency(text: str, spec: str) -> dict[str, Any]:
    between, lognormal = _RANGE.fullmatch(spec), _LOGNORMAL.fullmatch(spec)
    if between:
        return {"kind": "uniform", "s": float(between[1]), "most_s": float(between[2])}
    if lognormal:
        return {"kind": "lognormal", "s": float(lognormal[1]), "sigma": float(lognormal[2] or 0.5)}
    if _PLAIN.fullmatch(fixed := spec.removeprefix("fixed:")):
        return {"s": float(fixed)}
    raise BadInput(f"{shown(text)} is not a latency.", remedy="Write 0.8, 0.2..1.5 or lognormal:MEDIAN,SIGMA.")


def _given(match: re.Match[str]) -> dict[str, Any]:
    return {name: value for name, value in match.groupdict().items() if value is not None}


def _whole(text: str, number: str) -> int:
    if not number.isascii() or not number.isdecimal():
        raise BadInput(f"{shown(text)}: {shown(number)} is not the number of a call.")
    return int(number)


def _number(text: str, number: str) -> float:
    if not _PLAIN.fullmatch(number):
        raise BadInput(f"{shown(text)}: {shown(number)} is not a share, such as 0.05.")
    return float(number)
