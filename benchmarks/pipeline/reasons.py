"""Judges what `why` said the next call waits for by what bound it, as the provider saw it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from benchmarks.fleet.crew import Wrong
from benchmarks.fleet.telling import Verdict, at_most
from benchmarks.pipeline.seen import Said, Seen
from benchmarks.pipeline.truth import COOLDOWN, IN_FLIGHT, RAMP, WINDOW, Truth
from forebay.rules.standing import Standing

NOTHING = "nothing"
CALLING = "calling"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """How often each thing was said, and every sample that was wrong, in words."""

    said: Mapping[str, int]
    wrong: tuple[str, ...]

    @property
    def count(self) -> int:
        return sum(self.said.values())


def judge(seen: Seen, *, hint_s: float = 0.0, late_s: float = 0.0) -> Reasons:
    """What was said must have been so at an instant around then, and what was so all the while must have been said.

    Around: a grant and its call may be so far apart as the limit lets a call start late. Of a job that is said to run
    a call must have been in progress, or what it waited for must have been said; `late_s` is how much longer than
    that a busy machine may need between a task and its call.
    """
    if not seen.said:
        raise Wrong("nobody asked why")
    truth = Truth(seen.shape, seen.calls, hint_s)
    said: Counter[str] = Counter()
    wrong = []
    for each in seen.said:
        told = named(each.standing)
        said[" + ".join(sorted(told)) or (CALLING if each.runs else NOTHING)] += 1
        around = each.began - seen.shape.slack_s, each.ended + seen.shape.slack_s
        calls = each.runs and _calls(seen, each.job, around[0] - late_s, around[1] + late_s)
        fault = _fault(told, truth, *around, calls=calls)
        if fault:
            wrong.append(f"{each.began:.2f} {fault}: {each.standing.reasons[0].text}")
    return Reasons(said=said, wrong=tuple(wrong))


def named(standing: Standing) -> set[str]:
    """What it says binds; what is none of ours is named as it is."""
    found = set()
    for each in standing.binds:
        if each.startswith("in_flight"):
            found.add(IN_FLIGHT)
        elif " per " in each:
            found.add(WINDOW)
        elif each.startswith("cooldown"):
            found.add(COOLDOWN)
        else:
            found.add(each)
    if standing.wait_reason is not None and not found:
        found.add(standing.wait_reason)
    return found


def moved(samples: Iterable[Said], by_s: float) -> tuple[Said, ...]:
    """What would have been said by somebody who looks at another time: the judge must find it."""
    return tuple(replace(each, began=each.began + by_s, ended=each.ended + by_s) for each in samples)


def verdict(name: str, found: Reasons) -> Verdict:
    return at_most(0, len(found.wrong), f"{name}, wrong `why` ")


def _calls(seen: Seen, job: str, began: float, ended: float) -> bool:
    """Whether a call of the job was in progress then."""
    blobs = seen.blobs[job]
    return any(call.blob in blobs and call.arrived <= ended and call.ended >= began for call in seen.calls)


def _fault(told: set[str], truth: Truth, began: float, ended: float, *, calls: bool) -> str:
    instants = truth.instants(began, ended)
    surely = [truth.at(instant) for instant in instants]
    ever = set().union(*surely, *(truth.may_at(instant) for instant in instants))
    always = set.intersection(*surely)
    if told - ever:
        return f"said {' + '.join(sorted(told - ever))}, which was not so"
    if calls:
        return ""
    if not told and all(surely):
        return f"said nothing, while {' + '.join(sorted(set().union(*surely)))} bound"
    # Who cools down is told of that first; the ramp after it counts as well as a bound.
    if always - told and not told & {COOLDOWN, RAMP}:
        return f"did not say {' + '.join(sorted(always - told))}"
    return ""
