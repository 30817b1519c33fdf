"""Counts what one process of the fleet saw between two instants, and adds up those of all."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Tally:
    """Durations are kept in seconds, counts by name; nothing is taken before `begin` and after `end`."""

    counts: Counter[str] = field(default_factory=Counter)
    waits_s: list[float] = field(default_factory=list)
    exchanges_s: list[float] = field(default_factory=list)
    counts_from: float = 0.0
    counts_until: float = 0.0

    @property
    def is_open(self) -> bool:
        return self.counts_from <= time.monotonic() < self.counts_until

    def count(self, name: str, more: int = 1) -> None:
        if more and self.is_open:
            self.counts[name] += more

    def waited(self, seconds: float) -> None:
        if self.is_open:
            self.waits_s.append(seconds)

    def exchanged(self, seconds: float) -> None:
        if self.is_open:
            self.exchanges_s.append(seconds)

    def said(self) -> dict[str, Any]:
        return {"counts": dict(self.counts), "waits_s": self.waits_s, "exchanges_s": self.exchanges_s}


def added_up(said: list[dict[str, Any]]) -> Tally:
    total = Tally()
    for each in said:
        total.counts.update(each["counts"])
        total.waits_s += each["waits_s"]
        total.exchanges_s += each["exchanges_s"]
    return total


def p50_p99(seconds: list[float]) -> tuple[float, float] | None:
    if len(seconds) < 2:
        return (seconds[0], seconds[0]) if seconds else None
    return statistics.median(seconds), statistics.quantiles(seconds, n=100, method="inclusive")[98]
