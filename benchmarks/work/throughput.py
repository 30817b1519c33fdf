"""How many tasks a second one worker ends, from the first handler's start until the last end is in the file."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.work import ours, theirs
from benchmarks.work.marks import Marks
from benchmarks.work.running import Engine, Running, forebay, huey, until

SWEEP = (
    *(huey(workers) for workers in (1, 2, 4, 10)),
    *(huey(workers, "process") for workers in (1, 2, 4)),
)


@dataclass
class Round:
    rate: float
    worker_us: float
    children_us: float
    once: bool


@dataclass
class Row:
    engine: Engine
    rounds: list[Round] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return statistics.median(each.rate for each in self.rounds)


def measure(engine: Engine, count: int, folder: Path) -> Round:
    """One round in a fresh file: fill, start the worker, wait, look whether everything ran once."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        file, marks_file = Path(temporary) / "bench.db", Path(temporary) / "marks"
        side = ours if engine.is_ours else theirs
        side.fill(file, count)
        marked = Marks.create(marks_file, count)
        with Running(engine, file, marks_file) as running:
            while marked.missing() == count:
                running.check()
                time.sleep(0.0005)
            before = running.cpu_s()
            until(running, marked)
            recorded = side.Recorded(file)
            while not recorded.complete(count):
                running.check()
                time.sleep(0.001)
            ended = time.monotonic_ns()
            after = running.cpu_s()
        spent_s = (ended - marked.first_start()) / 1e9
        once = marked.once() and recorded.verified(count)
        recorded.close()
    worker, children = ((late - early) / count * 1e6 for early, late in zip(before, after, strict=True))
    return Round(count / spent_s, worker, children, once)


def best_rival(count: int, folder: Path) -> Engine:
    print(f"\nsweep for the rival's best setting: {count:,} tasks each; {theirs.SETTINGS}")
    rates = {}
    for engine in SWEEP:
        found = measure(engine, count, folder)
        rates[engine] = found.rate
        print(f"{engine.name:>45} {found.rate:>9,.0f}/s {_verdict(once=found.once)}", flush=True)
    return max(rates, key=lambda engine: rates[engine])


def throughput(folder: Path, rounds: int, count: int) -> None:
    best = best_rival(max(500, count // 5), folder)
    workers = int(best.arguments[1])
    engines = [best, huey(10), forebay(10), forebay(10, blocking=True), forebay(50), forebay(50, blocking=True)]
    engines.insert(2, forebay(workers))
    rows = [Row(engine) for engine in {engine.name: engine for engine in engines}.values()]
    print(f"\nno-op tasks: {count:,} a round, {rounds} rounds, interleaved; load {os.getloadavg()[0]:.1f}")
    for turn in range(rounds):
        # Forwards and backwards, so that a drift of the machine does not favour anyone.
        for row in rows if turn % 2 == 0 else rows[::-1]:
            row.rounds.append(measure(row.engine, count, folder))
    _print(rows)


def _print(rows: list[Row]) -> None:
    # The sweep is short and may have picked the wrong one: whichever did best in the rounds counts.
    best = max((row for row in rows if not row.engine.is_ours), key=lambda row: row.rate)
    print(
        f"{'median of rounds':>45} {'tasks/s':>9} {'least':>8} {'most':>8} {'/best':>7} {'us worker':>10} {'more':>9}"
    )
    for row in rows:
        rates = [each.rate for each in row.rounds]
        worker, children = (
            statistics.median(getattr(each, name) for each in row.rounds) for name in ("worker_us", "children_us")
        )
        ran = _verdict(once=all(each.once for each in row.rounds))
        print(
            f"{row.engine.name:>45} {row.rate:>9,.0f} {min(rates):>8,.0f} {max(rates):>8,.0f} "
            f"{row.rate / best.rate:>6.2f}x {worker:>10.0f} {children:>9.0f}  {ran}"
        )
    print(f"Huey: {theirs.SETTINGS}; a crash loses what it runs. /best: against {best.engine.name}.")
    print("Forebay: WAL, synchronous=FULL, history, results, fences; a crash repeats what it runs.")
    print("us: CPU of the worker, and more of its children, for each task. Load: " + f"{os.getloadavg()[0]:.1f}.")


def _verdict(*, once: bool) -> str:
    return "each ran once" if once else "NOT EACH ONCE"
