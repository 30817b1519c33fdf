"""Judges what was foretold by when the provider saw a job's last call end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.fleet.crew import Wrong
from benchmarks.fleet.telling import Verdict, at_most
from benchmarks.pipeline.seen import Foretold, Seen

ASKED = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """`errors` are relative to the time that was left; `early` is the share that ended before it was foretold."""

    errors: tuple[float, ...]
    early: float
    untold: int

    @property
    def error(self) -> float:
        return median(self.errors)


def judge(seen: Seen) -> Foresight:
    return combined([seen])


def combined(runs: Sequence[Seen]) -> Foresight:
    """Of several runs at once; each sample counts the same."""
    pairs = [pair for seen in runs for pair in _pairs(seen)]
    if not pairs:
        raise Wrong("nothing was foretold")
    errors = tuple(abs(eta_s - left_s) / left_s if left_s > 0 else math.inf for eta_s, left_s in pairs)
    untold = sum(each.eta_s is None for seen in runs for each in seen.foretold)
    early = sum(left_s < eta_s for eta_s, left_s in pairs) / len(pairs)
    return Foresight(errors=errors, early=early, untold=untold)


def stretched(samples: Iterable[Foretold], times: float) -> tuple[Foretold, ...]:
    """What somebody would have said who is wrong by so much: the judge must find it."""
    return tuple(replace(each, eta_s=None if each.eta_s is None else each.eta_s * times) for each in samples)


def verdict(name: str, found: Foresight) -> Verdict:
    return at_most(ASKED, found.error, f"{name}, ETA error p50 ")


def _pairs(seen: Seen) -> list[tuple[float, float]]:
    """What was said to be left, and what was."""
    ended = {call.blob: call.ended for call in seen.calls if not call.refused}
    ends = {job: max(ended[blob] for blob in blobs) for job, blobs in seen.blobs.items()}
    return [(each.eta_s, ends[each.job] - each.at) for each in seen.foretold if each.eta_s is not None]
