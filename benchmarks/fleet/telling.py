"""Prints what a part found: a line for people as it comes, and one of JSON for programs at the end."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from benchmarks.fleet.ground import load


@dataclass
class Row:
    """One contender in one setting; `figures` are of its rounds."""

    name: str
    is_ours: bool
    figures: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.figures)


@dataclass(frozen=True)
class Verdict:
    """Something that is asked for, in words, and whether it was reached."""

    asked: str
    found: float
    met: bool

    def __str__(self) -> str:
        return f"asked {self.asked}: {'met' if self.met else 'MISSED'}"


def at_least(asked: float, found: float, name: str = "") -> Verdict:
    return Verdict(f"{name or ''}>= {asked:g}", round(found, 4), found >= asked)


def at_most(asked: float, found: float, name: str = "") -> Verdict:
    return Verdict(f"{name or ''}<= {asked:g}", round(found, 4), found <= asked)


def percentile(figures: Sequence[float], percent: int) -> float:
    return statistics.quantiles(figures, n=100)[percent - 1]


def machine_readable(part: str, rows: Sequence[object], verdicts: Sequence[Verdict], **more: object) -> None:
    """Figures as they are, without rounding them away."""
    said = {
        "part": part,
        "load": load(),
        **more,
        "rows": [row if isinstance(row, dict) else asdict(row) for row in rows],  # type: ignore[call-overload]
        "asked": [asdict(verdict) for verdict in verdicts],
    }
    print(json.dumps(said, separators=(",", ":"), default=lambda value: round(value, 4)), flush=True)
