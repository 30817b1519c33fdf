"""Counts calls in a process of its own, by its own clock: how many at once, and how many in any window.

It reads notes of fixed size from its input, which is one pipe for all callers: the kernel keeps their order. It knows
nothing of limiters and imports none.
"""

from __future__ import annotations

import json
import os
import statistics
import struct
import sys
import time
from dataclasses import asdict, dataclass, field

from benchmarks.limiting.exactness import fullest

NOTE = struct.Struct("<cd")
BEGAN, ENDED, GO, OVER = b"+", b"-", b"g", b"o"
_READ_BYTES = 1 << 20


def note(pipe: int, kind: bytes) -> None:
    """Write one note, whole, with the sender's clock, which tells how late the judge reads."""
    os.write(pipe, NOTE.pack(kind, time.monotonic()))


@dataclass(frozen=True, slots=True)
class Window:
    """At most `n` arrivals in `per_s`; a limiter lets them in `enforced_s`."""

    n: int
    per_s: float
    enforced_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`calls` ended in the `span_s` between the marks; the peak and the worst window are those of the whole run.

    `share_of_rate`: of n per enforced window, over the whole windows before the last mark. `shortest_s`: the least time
    between an arrival and the n-th after it. `late_s`: how long notes lay before they were read, at worst. What is read
    late seems closer together than it was: `worst_sent` is the worst window by the callers' own clocks.
    """

    calls: int
    span_s: float
    peak: int
    level: float
    worst: int
    worst_sent: int
    share_of_rate: float | None
    shortest_s: float | None
    late_s: float

    @property
    def rate(self) -> float:
        return self.calls / self.span_s if self.span_s else 0.0


@dataclass(slots=True)
class Judge:
    level: int = 0
    peak: int = 0
    calls: int = 0
    busy_s: float = 0.0
    late_s: float = 0.0
    arrivals: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    went_at: float | None = None
    over_at: float | None = None
    _changed_at: float = 0.0

    @property
    def _counts(self) -> bool:
        return self.went_at is not None and self.over_at is None

    def take(self, kind: bytes, sent_at: float, now: float) -> None:
        self.late_s = max(self.late_s, now - sent_at)
        if self._counts:
            self.busy_s += self.level * (now - self._changed_at)
        self._changed_at = now
        if kind == BEGAN:
            self.level += 1
            self.peak = max(self.peak, self.level)
            self.arrivals.append(now)
            self.sent.append(sent_at)
        elif kind == ENDED:
            self.level -= 1
            self.calls += self._counts
        elif kind == GO:
            self.went_at = now
        else:
            self.over_at = now

    def verdict(self, window: Window | None) -> Verdict:
        if self.went_at is None or self.over_at is None:
            raise SystemExit("the judge was not told when the measurement began and ended")
        span_s = self.over_at - self.went_at
        shortest_s = share = None
        if window is not None:
            spans = [later - earlier for earlier, later in zip(self.arrivals, self.arrivals[window.n :], strict=False)]
            shortest_s = min(spans, default=None)
            share = self._share(window, span_s)
        return Verdict(
            calls=self.calls,
            span_s=span_s,
            peak=self.peak,
            level=self.busy_s / span_s if span_s else 0.0,
            worst=fullest(self.arrivals, window.per_s) if window else 0,
            worst_sent=fullest(self.sent, window.per_s) if window else 0,
            share_of_rate=share,
            shortest_s=shortest_s,
            late_s=self.late_s,
        )

    def _share(self, window: Window, span_s: float) -> float | None:
        whole = int(span_s / window.enforced_s)
        if not whole or self.over_at is None:
            return None
        since = self.over_at - whole * window.enforced_s
        return sum(since <= at < self.over_at for at in self.arrivals) / (whole * window.n)


def combined(verdicts: list[Verdict]) -> Verdict:
    """Of several runs: the median of what is good, the worst of what must not be."""
    return Verdict(
        calls=round(statistics.median(each.calls for each in verdicts)),
        span_s=statistics.median(each.span_s for each in verdicts),
        peak=max(each.peak for each in verdicts),
        level=statistics.median(each.level for each in verdicts),
        worst=max(each.worst for each in verdicts),
        worst_sent=max(each.worst_sent for each in verdicts),
        share_of_rate=_median([each.share_of_rate for each in verdicts]),
        shortest_s=min((each.shortest_s for each in verdicts if each.shortest_s is not None), default=None),
        late_s=max(each.late_s for each in verdicts),
    )


def _median(found: list[float | None]) -> float | None:
    known = [each for each in found if each is not None]
    return statistics.median(known) if known else None


def main() -> None:
    window = Window(**json.loads(sys.argv[1])) if sys.argv[1:] else None
    judge, rest = Judge(), b""
    while read := os.read(sys.stdin.fileno(), _READ_BYTES):
        now = time.monotonic()
        read = rest + read
        whole = len(read) - len(read) % NOTE.size
        for kind, sent_at in NOTE.iter_unpack(read[:whole]):
            judge.take(kind, sent_at, now)
        rest = read[whole:]
    print(json.dumps(asdict(judge.verdict(window))), flush=True)


if __name__ == "__main__":
    main()
