"""Works out what documents would take before anything is spent: pages, calls, and the time at the present limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forebay.model.limit import Limit
from forebay.processors.base import Processor
from forebay.rules.planning import plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is known of a document before it is processed; `scan_count` pages have no text of their own.

    `stored_count` of its pages were read before, in `stored_chunk_count` chunks.
    """

    page_count: int
    scan_count: int
    stored_count: int = 0
    stored_chunk_count: int = 0
    repaired: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """`least_s` is None where nothing tells how long a call takes; `binds` is what keeps it from being faster."""

    page_count: int
    scan_count: int
    stored_count: int
    call_count: int
    least_s: float | None
    binds: str


def estimate(
    looks: Iterable[Look], processor: Processor, limit: Limit | None, *, call_s: float | None, cores: int
) -> Estimate:
    """A call takes what was said, else what the processor says a page takes."""
    known = list(looks)
    pages = sum(look.page_count for look in known)
    scans = sum(look.scan_count for look in known)
    stored = sum(look.stored_count for look in known)
    calls = sum(-(-look.page_count // processor.max_pages) - look.stored_chunk_count for look in known)
    left = pages - stored
    least_s: float | None
    if not left:
        least_s, binds = 0.0, "everything is stored"
    elif call_s is not None and limit is not None and calls:
        total = plan(limit, call_s, units=None, calls=calls).total
        least_s, binds = (total.least_s, total.bound) if total else (None, "")
    elif processor.pace is not None:
        share = scans / pages
        least_s = left * (share * processor.pace.scan_s + (1 - share) * processor.pace.text_s) / cores
        binds = f"{cores} cores"
    elif call_s is not None:
        least_s, binds = calls * call_s / cores, f"{cores} calls at once"
    else:
        least_s, binds = None, "how long a call takes is not known: give --call-time"
    return Estimate(
        page_count=pages, scan_count=scans, stored_count=stored, call_count=calls, least_s=least_s, binds=binds
    )
