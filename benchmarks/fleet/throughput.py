"""How many tasks a second the workers end: from the first handler's start until the last end is in the store."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass, field

from benchmarks.fleet.ground import Ground, load
from benchmarks.fleet.measuring import measure
from benchmarks.fleet.orders import Contender
from benchmarks.fleet.telling import Verdict, at_least, machine_readable

AIM = 1.5
_SLOW = 500
"""Procrastinate takes one job at a time: fewer tasks, once, are enough to know its rate."""
_WARM = Contender("warm-up", "pgqueuer", {"batch": 50})


@dataclass
class Row:
    contender: Contender
    processes: int
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


def forebay(concurrency: int, store: str = "PostgreSQL") -> Contender:
    name = f"Forebay {store}, concurrency {concurrency}"
    return Contender(name, "ours", {"concurrency": concurrency}, store=store)


def pgqueuer(batch: int, managers: int = 1, concurrency: int = 0) -> Contender:
    """Without a concurrency it takes on whatever it can claim."""
    name = f"PgQueuer, batch {batch}" + (f", {managers} managers" if managers > 1 else "")
    name += f", concurrency {concurrency}" if concurrency else ""
    return Contender(name, "pgqueuer", {"batch": batch, "managers": managers, "concurrency": concurrency})


def procrastinate(concurrency: int) -> Contender:
    return Contender(f"Procrastinate, concurrency {concurrency}", "procrastinate", {"concurrency": concurrency})


SWEEP = (*(pgqueuer(batch) for batch in (50, 250, 1000)), pgqueuer(250, 2))
SAME = 50
EQUAL = pgqueuer(SAME // 2, concurrency=SAME)
"""The largest batch that it allows at the concurrency that Forebay has in one of its rows, too."""


def best_rival(count: int, ground: Ground) -> list[Contender]:
    """The two best of a short sweep: which one counts is decided in the rounds."""
    rates = {contender: measure(contender, 1, count, ground)[0] for contender in SWEEP}
    said = ", ".join(f"{each.name.removeprefix('PgQueuer, ')}: {rate:,.0f}" for each, rate in rates.items())
    print(f"PgQueuer's settings, {count:,} tasks each, tasks/s: {said}", flush=True)
    return sorted(rates, key=lambda contender: -rates[contender])[:2]


def throughput(ground: Ground, rounds: int, count: int, *, store: str = "PostgreSQL", rivals: bool = True) -> None:
    print(f"\nthroughput: no-op tasks, {count:,} a round, all waiting at the start; {rounds} rounds; load {load()}")
    measure(_WARM, 1, 1000, ground)
    best = best_rival(max(2000, count // 3), ground) if rivals else []
    ours = [forebay(concurrency, store) for concurrency in (10, SAME, 250)]
    rows = [Row(contender, processes) for processes in (1, 2) for contender in (*best, *ours)]
    if rivals:
        rows += [Row(EQUAL, 1), Row(EQUAL, 2), Row(procrastinate(10), 1), Row(procrastinate(10), 2)]
    for turn in range(rounds):
        # Forwards and backwards, so that a drift of the machine does not favour anyone.
        for row in rows if turn % 2 == 0 else rows[::-1]:
            is_slow = row.contender.side == "procrastinate"
            if is_slow and turn:
                continue
            rate, cpu_us = measure(row.contender, row.processes, min(_SLOW, count) if is_slow else count, ground)
            print(f"  {turn + 1}: {row.processes} x {row.contender.name} {rate:,.0f}/s", file=sys.stderr, flush=True)
            row.rates.append(rate)
            row.cpu_us.append(cpu_us)
    _print(rows)


def _print(rows: list[Row]) -> None:
    verdicts: list[Verdict] = []
    print(f"{'median of rounds':>52} {'tasks/s':>9} {'least':>8} {'most':>8} {'/PgQueuer':>10} {'CPU us':>7}")
    for processes in (1, 2):
        of_these = [row for row in rows if row.processes == processes]
        theirs = max((row.rate for row in of_these if row.contender.side == "pgqueuer"), default=0.0)
        for row in of_these:
            ratio = f"{row.rate / theirs:>9.2f}x" if theirs else f"{'':>10}"
            print(
                f"{f'{_counted(processes)}, {row.contender.name}':>52} {row.rate:>9,.0f} {min(row.rates):>8,.0f}"
                f" {max(row.rates):>8,.0f} {ratio} {statistics.median(row.cpu_us):>7.0f}"
            )
        if theirs:
            ours = max(row.rate for row in of_these if row.contender.is_ours)
            verdicts.append(at_least(1.0, ours / theirs, f"{_counted(processes)}, best /PgQueuer's best "))
            print(f"{verdicts[-1]} ({ours / theirs:.2f}x); aim {AIM:g}x")
            same = next(
                row.rate for row in of_these if row.contender.is_ours and row.contender.options == {"concurrency": SAME}
            )
            equal = next(row.rate for row in of_these if row.contender is EQUAL)
            print(f"both at concurrency {SAME}: {same / equal:.2f}x")
    print(f"each task ran once, by the handlers' marks and by the store; load {load()}")
    told = [
        {"name": row.contender.name, "processes": row.processes, "tasks_s": row.rate, "rounds": row.rates}
        for row in rows
    ]
    machine_readable("throughput", told, verdicts)


def _counted(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"
