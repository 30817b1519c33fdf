"""The numbers of a demonstration: how many documents, under which quotas, and how long calls take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Documents for one API, its quota, and how long its calls take, as the simulator gets them."""

    api: str
    document_count: int
    in_flight: int
    n: int
    per_s: float
    latency: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Forebay may take `within_s`, the naive way `naive_s`; some of each load are handed in again when all are done."""

    loads: tuple[Load, ...]
    within_s: float
    naive_s: float
    again_count: int
    worker_count: int = 3
    thread_count: int = 24


FULL: Final = Scene(
    loads=(
        Load(api="docai", document_count=110, in_flight=5, n=30, per_s=6.0, latency=("docai=0.4..1.2",)),
        Load(
            api="adobe", document_count=24, in_flight=8, n=20, per_s=6.0, latency=("adobe=0.1..0.3", "adobe.job=0.5..2")
        ),
    ),
    within_s=75.0,
    naive_s=35.0,
    again_count=8,
)
QUICK: Final = Scene(
    loads=(
        Load(api="docai", document_count=27, in_flight=5, n=15, per_s=2.0, latency=("docai=0.2..0.6",)),
        Load(api="adobe", document_count=5, in_flight=4, n=10, per_s=2.0, latency=("adobe=0.1", "adobe.job=0.3..0.8")),
    ),
    within_s=40.0,
    naive_s=6.0,
    again_count=3,
)
