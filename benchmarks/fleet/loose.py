"""What a limit that does not bind costs a whole engine: short tasks, with `limit=` and without."""

from __future__ import annotations

import statistics

from benchmarks.fleet.ground import Ground, load
from benchmarks.fleet.measuring import measure
from benchmarks.fleet.orders import Contender
from benchmarks.fleet.telling import Row, at_least, machine_readable

CONCURRENCY = 10
TASK_S = 0.02
IN_FLIGHT = 1000


def loose(
    ground: Ground,
    rounds: int,
    count: int,
    *,
    store: str = "PostgreSQL",
    limits: tuple[str, ...] = ("Redis", "PostgreSQL"),
) -> None:
    print(
        f"\nloose: tasks of {1000 * TASK_S:g} ms at concurrency {CONCURRENCY}, with a limit of {IN_FLIGHT:,} in flight"
        f" and without; {count:,} tasks, {rounds} rounds; load {load()}"
    )
    options = {"concurrency": CONCURRENCY}
    free = Contender(f"Forebay {store}, no limit", "ours", dict(options), store=store)
    bound = [
        Contender(f"Forebay {store}, limits {each}", "ours", dict(options), store=store, limits=each) for each in limits
    ]
    rows = {each: Row(each.name, is_ours=True) for each in (free, *bound)}
    for turn in range(rounds):
        for contender in rows if turn % 2 == 0 else [*rows][::-1]:
            in_flight = IN_FLIGHT if contender.limits else 0
            rate, _ = measure(contender, 1, count, ground, in_flight=in_flight, work_s=TASK_S)
            rows[contender].figures.append(rate)
    print(f"{'median of rounds':>45} {'tasks/s':>9} {'least':>8} {'most':>8} {'/no limit':>10}")
    verdicts = []
    for contender, row in rows.items():
        # Of each round beside its neighbour: what else the machine did then slowed both.
        ratio = statistics.median(figure / plain for figure, plain in zip(row.figures, rows[free].figures, strict=True))
        said = ""
        if contender.limits:
            verdicts.append(at_least(0.95, ratio, f"{row.name} /no limit "))
            said = f"asked >= 0.95x: {'met' if verdicts[-1].met else 'MISSED'}"
        print(
            f"{row.name:>45} {row.median:>9,.1f} {min(row.figures):>8,.1f} {max(row.figures):>8,.1f}"
            f" {ratio:>9.3f}x  {said}".rstrip()
        )
    print(f"ideal {CONCURRENCY / TASK_S:,.0f} tasks/s; each ran once; load {load()}")
    machine_readable("loose", list(rows.values()), verdicts)
