"""Turns what the simulator and the ledger saw into promises, each held or broken, with its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from forebay.model.task import Task

_REFUSED: Final = 429
_WORK: Final = ("docai.process", "adobe.autotag")
"""The routes of which a call is paid for a piece of a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """`seen` may be no more than `most`, and no less than `least`."""

    text: str
    seen: int
    most: int
    least: int = 0

    @property
    def held(self) -> bool:
        return self.least <= self.seen <= self.most


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """A worker that was ended by -9, and how many of its calls were sent by then without a stored result."""

    name: str
    pid: int
    calls_under_way: int


def promises(
    seen: Mapping[str, Any],
    calls: Sequence[Mapping[str, Any]],
    chunks: Iterable[Task],
    *,
    whole_count: int,
    document_count: int,
    killed: Killed | None,
) -> list[Promise]:
    under_way = killed.calls_under_way if killed is not None else 0
    return [
        Promise(text="documents done, with every page", seen=whole_count, most=document_count, least=document_count),
        *_bounds(seen["quotas"]),
        Promise(text="calls refused with 429", seen=seen["refused_429"], most=0),
        Promise(text="calls after a stored result", seen=late(calls, chunks), most=0),
        Promise(text="calls made again because of the kill", seen=repeated(calls), most=under_way),
    ]


def repeated(calls: Iterable[Mapping[str, Any]]) -> int:
    """Calls beyond the first for the same bytes, those that were refused left out."""
    counted = Counter(
        (call["route"], call["fingerprint"])
        for call in calls
        if call["route"] in _WORK and call["fingerprint"] and call["status"] != _REFUSED
    )
    return sum(count - 1 for count in counted.values())


def late(calls: Iterable[Mapping[str, Any]], chunks: Iterable[Task]) -> int:
    """Calls that reached the provider when the ledger had a result for the same bytes already."""
    stored: dict[str, float] = {}
    for chunk in chunks:
        if chunk.payload_blob is not None and chunk.result_blob is not None and chunk.finished_at is not None:
            stored[chunk.payload_blob] = min(chunk.finished_at, stored.get(chunk.payload_blob, chunk.finished_at))
    return sum(
        call["route"] in _WORK
        and call["fingerprint"] in stored
        and datetime.fromisoformat(call["arrived_at"]).timestamp() > stored[call["fingerprint"]]
        for call in calls
    )


def _bounds(quotas: Mapping[str, Any]) -> Iterator[Promise]:
    for api, quota in quotas.items():
        if "in_flight" in quota:
            bound = quota["in_flight"]
            yield Promise(text=f"{api}: calls at once", seen=bound["peak"], most=bound["limit"])
        for window in quota["windows"]:
            text = f"{api}: {window['unit']} in any {window['per_s']:g} s"
            yield Promise(text=text, seen=window["worst"], most=window["limit"])
