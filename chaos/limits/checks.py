"""What the judge is asked besides: bounds that hold for a part of a run, and what must have gone on after a fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from chaos import journal
from chaos.limits import measures
from chaos.limits.records import Call, Records
from chaos.limits.rules import Window

Check = Callable[[Records], Iterator[str]]


@dataclass(frozen=True, slots=True)
class When:
    """An instant: so long after a mark; of several by that name the last."""

    mark: str = "go"
    plus_s: float = 0.0

    def at(self, found: Records) -> float:
        marks = found.marked(self.mark)
        return marks[-1].at + self.plus_s if marks else math.inf

    def __str__(self) -> str:
        return f"{self.plus_s:g} s after {self.mark!r}"


END = When("over")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """Never more than this between two instants, of all processes or of each."""

    since: When = When()
    until: When = END
    in_flight: int | None = None
    window: Window | None = None
    each: bool = False

    def __call__(self, found: Records) -> Iterator[str]:
        since, until = self.since.at(found), self.until.at(found)
        for who in sorted({call.who for call in found.calls}) if self.each else [""]:
            calls = [call for call in found.calls if not self.each or call.who == who]
            yield from (f"{text}{f' of {who}' if who else ''}" for text in self._broken(calls, since, until))

    def _broken(self, calls: list[Call], since: float, until: float) -> Iterator[str]:
        if self.in_flight is not None:
            level = most_between(calls, since, until)
            if level > self.in_flight:
                yield f"L1 {level} calls in progress later than {self.since}, {self.in_flight} were allowed"
        if self.window is not None:
            late = [call for call in calls if since <= call.arrived_at < until]
            worst = measures.worst_window(late, self.window.window_s)
            if worst.count > self.window.n:
                yield f"L2 {worst.count} units in {self.window.window_s:g} s later than {self.since}, {self.window}"


def most_between(calls: list[Call], since: float, until: float) -> int:
    """The highest level between two instants, with what was in progress at the first."""
    before, highest = 0, 0
    for at, level in measures.levels(calls):
        if at >= until:
            break
        if at < since:
            before = level
        else:
            highest = max(highest, level)
    return max(before, highest)


def reached(count: int, when: When, within_s: float) -> Check:
    """So many calls are in progress soon after an instant."""

    def check(found: Records) -> Iterator[str]:
        most = most_between([*found.calls], when.at(found), when.at(found) + within_s)
        if most < count:
            yield f"L5 {most} calls in progress within {within_s:g} s after {when.mark!r}, {count} were free to be"

    return check


def busy(least: float, since: When, until: When) -> Check:
    """So many calls are in progress on average between two instants."""

    def check(found: Records) -> Iterator[str]:
        level = measures.mean_level(found.calls, since.at(found), until.at(found))
        if level < least:
            yield f"L5 {level:.2f} calls in progress on average between {since} and {until}, {least:g} at least"

    return check


def resumed(when: When, within_s: float) -> Check:
    """Calls arrive again soon after an instant, by themselves."""

    def check(found: Records) -> Iterator[str]:
        at = when.at(found)
        if not any(at <= call.arrived_at < at + within_s for call in found.calls):
            yield f"L5 no call arrived within {within_s:g} s from {when} on"

    return check


def windows_seen(window: Window, extra_s: float, least: int) -> Check:
    """The time was long enough for so many windows, and they were used."""

    def check(found: Records) -> Iterator[str]:
        shares = measures.rate_shares(found.calls, window.n, window.window_s + extra_s)
        if len(shares) < least:
            yield f"windows of {window} {len(shares)} of {least}"

    return check


def arrivals(since: When, until: When, least: int) -> Check:
    def check(found: Records) -> Iterator[str]:
        count = sum(since.at(found) <= call.arrived_at < until.at(found) for call in found.calls)
        if count < least:
            yield f"calls between {since} and {until}: {count} of {least}"

    return check


def marked(*names: str) -> Check:
    return lambda found: (f"the mark {name!r}" for name in names if not found.marked(name))


def answered(status: int, least: int) -> Check:
    def check(found: Records) -> Iterator[str]:
        count = sum(call.status == status for call in found.calls)
        if count < least:
            yield f"answers {status}: {count} of {least}"

    return check


def at_most_answered(status: int, most: int) -> Check:
    def check(found: Records) -> Iterator[str]:
        count = sum(call.status == status for call in found.calls)
        if count > most:
            yield f"L3 {count} calls were answered {status}, after {most} nobody may have called"

    return check


def paused_for(status: int, nth: int, least_s: float, most_s: float) -> Check:
    """After so many such answers nobody calls for at least and at most so long."""

    def check(found: Records) -> Iterator[str]:
        pause = _pause(found, status, nth)
        if pause is not None and not least_s <= pause[1] - pause[0] <= most_s:
            yield (
                f"L3 after answer {nth} with {status} nobody called for {pause[1] - pause[0]:.3f} s,"
                f" from {least_s:g} to {most_s:g} s were promised"
            )

    return check


def ramped(status: int, nth: int, ceiling: int, trail_s: float) -> Check:
    """After such a pause calls come back by the ramp; the first may have been let in so much before it arrived."""

    def check(found: Records) -> Iterator[str]:
        pause = _pause(found, status, nth)
        if pause is None:
            return
        for step in measures.ramp(found.calls, pause[1] - trail_s, found.span[1], ceiling=ceiling):
            if step.arrivals_so_far > 2 * step.allowance - 1:
                yield f"L3 {step.arrivals_so_far} calls had arrived in step {step.number + 1} after the pause"

    return check


def _pause(found: Records, status: int, nth: int) -> tuple[float, float] | None:
    """The longest time without arrivals after so many such answers."""
    refused = [call for call in found.calls if call.status == status]
    if len(refused) < nth:
        return None
    at = refused[nth - 1].ended_at
    instants = [at, *(call.arrived_at for call in found.calls if call.arrived_at > at)]
    return max(pairwise(instants), key=lambda pair: pair[1] - pair[0], default=None)


def told(file: Path, *kinds: str) -> Check:
    """Callers were told of one of these errors."""

    def check(_: Records) -> Iterator[str]:
        seen = {record["kind"] for record in journal.read(file)} if file.exists() else set()
        if not seen & {*kinds}:
            yield f"a caller that was told of {' or '.join(kinds)}"

    return check
