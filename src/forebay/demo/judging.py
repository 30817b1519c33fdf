"""Turns what the simulator and the ledger saw into promises, each held or broken, with its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from forebay.model.task import Task

Call = Mapping[str, Any]
_REFUSED: Final = 429
_WORK: Final = ("docai.process", "adobe.autotag")


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
    """A worker that was ended by -9; so many of its calls were sent by then, and had no result in the ledger."""

    name: str
    pid: int
    calls_under_way: int


def promises(
    seen: Mapping[str, Any],
    calls: Sequence[Call],
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
        Promise(text="workers killed on the way", seen=int(killed is not None), most=1, least=1),
        Promise(text="calls made again because of the kill", seen=repeated(calls), most=under_way),
    ]


def work(calls: Iterable[Call]) -> Iterator[Call]:
    """Those that are paid for a piece of a document, which has a fingerprint."""
    return (call for call in calls if call["route"] in _WORK and call["fingerprint"])


def repeated(calls: Iterable[Call]) -> int:
    """Calls beyond the first for the same bytes, those that were refused left out."""
    counted = Counter((call["route"], call["fingerprint"]) for call in work(calls) if call["status"] != _REFUSED)
    return sum(count - 1 for count in counted.values())


def late(calls: Iterable[Call], chunks: Iterable[Task]) -> int:
    """Calls that reached the provider when the ledger had a result for the same bytes already."""
    stored: dict[str | None, float] = {}
    for chunk in chunks:
        if chunk.result_blob is not None and chunk.finished_at is not None:
            before = stored.get(chunk.payload_blob, chunk.finished_at)
            stored[chunk.payload_blob] = min(before, chunk.finished_at)
    return sum(
        datetime.fromisoformat(call["arrived_at"]).timestamp() > stored[call["fingerprint"]]
        for call in work(calls)
        if call["fingerprint"] in stored
    )


def _bounds(quotas: Mapping[str, Any]) -> Iterator[Promise]:
    for api, quota in quotas.items():
        bound = quota["in_flight"]
        yield Promise(text=f"{api}: calls at once", seen=bound["peak"], most=bound["limit"])
        for window in quota["windows"]:
            text = f"{api}: {window['unit']} in any {window['per_s']:g} s"
            yield Promise(text=text, seen=window["worst"], most=window["limit"])
