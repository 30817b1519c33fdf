"""The numbers of a demonstration: how many documents, under which quotas, and how long calls take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Documents for one API, its quota as the simulator enforces it, and the shortest and longest of its calls."""

    api: str
    document_count: int
    in_flight: int
    n: int
    per_s: float
    call_s: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """`within_s` is what either way may take; `again_count` documents are handed in once more when all are done."""

    loads: tuple[Load, ...]
    within_s: float
    worker_count: int = 3
    thread_count: int = 24
    again_count: int = 10


_DOCAI: Final = {"api": "docai", "in_flight": 5}

FULL: Final = Scene(
    loads=(Load(document_count=120, n=30, per_s=6.0, call_s=(0.4, 1.2), **_DOCAI),),  # type: ignore[arg-type]  # as above
    within_s=50.0,
)
QUICK: Final = Scene(
    loads=(Load(document_count=36, n=15, per_s=2.0, call_s=(0.2, 0.6), **_DOCAI),),  # type: ignore[arg-type]  # same
    within_s=14.0,
    again_count=5,
)
