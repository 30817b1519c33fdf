"""What was seen in a run: the provider's calls, and what Forebay said meanwhile; all instants are by the wall clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from benchmarks.pipeline.shapes import Shape
from forebay.rules.standing import Standing

_REFUSED = 429


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """As the simulator saw it; `blob` is the sha256 of what was sent."""

    arrived: float
    ended: float
    refused: bool = False
    blob: str = ""

    @property
    def lasted_s(self) -> float:
        return self.ended - self.arrived


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """When a job will have ended, as it was said at an instant; None where nobody could tell."""

    job: str
    at: float
    eta_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the next call waits for, as it was said between two instants: of a job, or without one of the lane."""

    began: float
    ended: float
    standing: Standing
    job: str = ""

    @property
    def runs(self) -> bool:
        """Whether it says that the call is made, or about to be."""
        return any(reason.code == "running" for reason in self.standing.reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`blobs` are those of each job's chunks; `verdict` is the simulator's."""

    shape: Shape
    calls: tuple[Call, ...]
    verdict: Mapping[str, Any]
    foretold: tuple[Foretold, ...] = ()
    said: tuple[Said, ...] = ()
    blobs: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def refused(self) -> tuple[Call, ...]:
        return tuple(call for call in self.calls if call.refused)


def read(rows: Iterable[Mapping[str, Any]]) -> tuple[Call, ...]:
    """In the order of their arrival; those that have not ended are left out."""
    found = []
    for row in rows:
        if row["ended"] is not None:
            arrived = datetime.fromisoformat(row["arrived_at"]).timestamp()
            lasted_s = row["ended"] - row["arrived"]
            refused = row["status"] == _REFUSED
            found.append(Call(arrived=arrived, ended=arrived + lasted_s, refused=refused, blob=row["fingerprint"]))
    return tuple(found)
