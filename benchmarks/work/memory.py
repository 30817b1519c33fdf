"""Whether a worker's memory stays flat over many tasks, submitted as it goes so that the backlog is bounded."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.work.marks import Marks
from benchmarks.work.running import Running, forebay, until
from forebay import Forebay
from forebay.stores.sqlite.ledger import SqliteLedger

_BATCH = 1000
_BACKLOG = 4 * _BATCH
_RING = 2 * _BACKLOG
_FLAT_MIB = 10.0


def memory(folder: Path, count: int, *, keep: bool, blocking: bool) -> None:
    engine = forebay(10, blocking=blocking, settings={} if keep else {"retention_completed_s": "0"})
    kept = "completed tasks kept" if keep else "completed tasks deleted (retention 0 s)"
    print(f"\nmemory: {count:,} tasks, {engine.name}, {kept}; load {os.getloadavg()[0]:.1f}")
    file, marks_file = folder / "bench.db", folder / "marks"
    marked = Marks.create(marks_file, _RING)
    samples: list[tuple[float, float]] = []
    began = time.monotonic()
    with Forebay(SqliteLedger(file)) as client, Running(engine, file, marks_file) as running:
        for start in range(0, count, _BATCH):
            if start >= _BACKLOG:
                _reap(running, marked, start - _BACKLOG)
                samples.append(running.resident_mib())
            slots = range(start % _RING, start % _RING + _BATCH)
            client.submit_many("noop", [{"index": slot} for slot in slots])
        for start in range(max(0, count - _BACKLOG), count, _BATCH):
            _reap(running, marked, start)
            samples.append(running.resident_mib())
        print(f"{count / (time.monotonic() - began):,.0f} tasks a second with their submission beside them")
    _print(samples, count)


def _reap(running: Running, marked: Marks, start: int) -> None:
    """Wait for a batch, see that each of it ran once, and free its slots for another."""
    first = start % _RING
    until(running, marked, first, first + _BATCH)
    if not marked.once(first, first + _BATCH):
        raise SystemExit("a task ran more than once")
    marked.clear(first, first + _BATCH)


def _print(samples: list[tuple[float, float]], count: int) -> None:
    print(f"{'done':>10} {'worker MiB':>11} {'children MiB':>13}")
    for share in (0.01, 0.1, 0.25, 0.5, 0.75, 1.0):
        worker, children = samples[max(0, round(share * len(samples)) - 1)]
        print(f"{share:>10.0%} {worker:>11.1f} {children:>13.1f}")
    early, last = (sum(samples[at]) for at in (len(samples) // 10, -1))
    grown = last - early
    slope = grown / (0.9 * count) * 1024 * 1024
    verdict = "flat" if grown < _FLAT_MIB else "GROWS"
    print(f"from 10 % to 100 %: {grown:+.1f} MiB, {slope:+.0f} bytes a task: {verdict} (bound: {_FLAT_MIB:.0f} MiB)")
