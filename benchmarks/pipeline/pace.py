"""Judges how fast a run was beside what its quota allows, and whether it stayed within it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean

from benchmarks.fleet.crew import Wrong
from benchmarks.fleet.telling import Verdict, at_most
from benchmarks.pipeline.seen import Seen

ASKED = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """`bound_s` is the arithmetic bound, `best_s` what both bounds together allow for these very calls."""

    calls: int
    call_s: float
    took_s: float
    bound_s: float
    best_s: float
    refused: int
    peak: int
    worst: int

    @property
    def ratio(self) -> float:
        return self.took_s / self.bound_s


def judge(seen: Seen) -> Pace:
    """From the first call's arrival to the last one's end; Wrong if not every chunk was called once."""
    shape, calls = seen.shape, seen.calls
    done = [call for call in calls if not call.refused]
    if len({call.blob for call in done}) != shape.calls:
        raise Wrong(f"{len({call.blob for call in done})} chunks were answered, not {shape.calls}")
    if len(done) != shape.calls:
        raise Wrong(f"{len(done)} calls were answered for {shape.calls} chunks")
    quota = seen.verdict["quotas"]["docai"]
    call_s = mean(call.lasted_s for call in done)
    return Pace(
        calls=len(calls),
        call_s=call_s,
        took_s=max(call.ended for call in calls) - min(call.arrived for call in calls),
        bound_s=shape.bound_s(len(done), call_s),
        best_s=shape.best_s([call.lasted_s for call in done]),
        refused=len(seen.refused),
        peak=quota["in_flight"]["peak"],
        worst=quota["windows"][0]["worst"],
    )


def verdicts(name: str, pace: Pace) -> list[Verdict]:
    return [
        at_most(ASKED, pace.ratio, f"{name}, time /bound "),
        at_most(0, pace.refused, f"{name}, 429s "),
    ]
