"""Judges how a run comes through a storm of 429s: how much is wasted in it, and how soon the allowed rate is back."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.fleet.crew import Wrong
from benchmarks.fleet.telling import Verdict, at_most
from benchmarks.pipeline.seen import Call, Seen
from benchmarks.pipeline.shapes import Shape

ASKED_S = 10.0
_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Weathered:
    """`granted`: refused, and granted or in flight when the first 429 came; `probes`: one after each cool-down."""

    refused: int
    granted: int
    probes: int
    back_s: float

    @property
    def too_many(self) -> int:
        return self.refused - self.granted - self.probes


def judge(seen: Seen, hint_s: float) -> Weathered:
    """`hint_s` is how long each 429 told to stay away."""
    refused = seen.refused
    if not refused:
        raise Wrong("there was no storm")
    first = min(call.ended for call in refused)
    # What was granted before the first 429 may arrive so much after it, and a probe no sooner than it was told.
    trails_s = min(seen.shape.slack_s, hint_s)
    granted = [call for call in refused if call.arrived < first + trails_s]
    later = sorted((call for call in refused if call not in granted), key=lambda call: call.arrived)
    probes, last = 0, max(call.ended for call in granted)
    for call in later:
        # Nobody may come again before the time that the one before was told.
        if call.arrived >= last + hint_s:
            probes += 1
            last = call.ended
    cool_until = max((each.standing.cooldown_until or 0.0 for each in seen.said), default=0.0)
    ended = max(cool_until, max(call.ended for call in refused) + hint_s)
    return Weathered(
        refused=len(refused),
        granted=min(len(granted), seen.shape.in_flight),
        probes=probes,
        back_s=_back_s(seen.shape, seen.calls, ended),
    )


def verdicts(found: Weathered) -> list[Verdict]:
    return [
        at_most(ASKED_S, found.back_s, "storm, seconds until the rate is back "),
        at_most(0, found.too_many, "storm, wasted calls beyond those allowed "),
    ]


def _back_s(shape: Shape, calls: Sequence[Call], since: float) -> float:
    """When somebody who counts the calls of the last window finds the rate: at the window's end."""
    arrived = sorted(call.arrived for call in calls if call.arrived >= since)
    needed = math.ceil(_SHARE * shape.per_second * shape.wide_s)
    for number, at in enumerate(arrived):
        if number + 1 - bisect_right(arrived, at - shape.wide_s) >= needed:
            return at - since
    return math.inf
