"""How long an idle worker in another process takes from the call of submit to the start of the handler."""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.ledger import fsync_ms
from benchmarks.work import theirs
from benchmarks.work.marks import Marks
from benchmarks.work.running import Engine, Running, forebay, huey, until
from forebay import Forebay
from forebay.stores.sqlite.ledger import SqliteLedger

_POLL_S = 0.001
_WARM = 10


def latency(folder: Path, count: int) -> None:
    engines = (forebay(10), forebay(10, blocking=True), huey(2, "thread", _POLL_S), huey(2, "thread", 0.1))
    sync_ms = fsync_ms(folder)
    bound_ms = max(3.0, 2 * sync_ms + 2)
    print(f"\nsubmit to start, idle worker in another process: {count} submits, 20 to 60 ms apart")
    print(f"fdatasync of 4 KiB: {sync_ms:.2f} ms (median); asked for: p50 <= {bound_ms:.1f} ms")
    print(f"{'':>45} {'p50 ms':>8} {'p99 ms':>8} {'worker CPU':>11}   load {os.getloadavg()[0]:.1f}")
    for engine in engines:
        times, share = _measure(engine, count, folder)
        middle, high = statistics.median(times), statistics.quantiles(times, n=100)[98]
        said = ("met" if middle <= bound_ms else "MISSED") if engine.is_ours else f"polls every {engine.arguments[3]} s"
        print(f"{engine.name:>45} {middle:>8.2f} {high:>8.2f} {share:>10.1%}   {said}", flush=True)


def _measure(engine: Engine, count: int, folder: Path) -> tuple[list[float], float]:
    """Milliseconds of each submit, and the share of a core that the worker and its children used meanwhile."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        file, marks_file = Path(temporary) / "bench.db", Path(temporary) / "marks"
        marked = Marks.create(marks_file, _WARM + count)
        submit, close = _client(engine, file)
        with Running(engine, file, marks_file) as running:
            for index in range(_WARM):
                submit(index)
            until(running, marked, 0, _WARM)
            time.sleep(1)
            began, used = time.monotonic(), sum(running.cpu_s())
            called = [_pause_and(submit, index) for index in range(_WARM, _WARM + count)]
            until(running, marked)
            share = (sum(running.cpu_s()) - used) / (time.monotonic() - began)
        close()
        if not marked.once():
            raise SystemExit(f"{engine.name}: not every task ran once")
        starts = (marked.started(index) for index in range(_WARM, _WARM + count))
        return [(start - call) / 1e6 for start, call in zip(starts, called, strict=True)], share


def _client(engine: Engine, file: Path) -> tuple[Callable[[int], object], Callable[[], object]]:
    if engine.is_ours:
        client = Forebay(SqliteLedger(file))
        return lambda index: client.submit("noop", {"index": index}), client.close
    queue, task = theirs.connect(file)
    return task, queue.storage.close


def _pause_and(submit: Callable[[int], object], index: int) -> int:
    time.sleep(random.uniform(0.02, 0.06))
    called = time.monotonic_ns()
    submit(index)
    return called
