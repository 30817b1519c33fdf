"""How fast small tasks are submitted in bulk, by one client."""

from __future__ import annotations

from benchmarks.fleet.crew import Wrong
from benchmarks.fleet.ground import Ground, load
from benchmarks.fleet.orders import Contender, side
from benchmarks.fleet.telling import Row, at_least, machine_readable

_BATCHES = (1000, 5000)


def bulk(ground: Ground, rounds: int, count: int, *, store: str = "PostgreSQL", rivals: bool = True) -> None:
    """Each in the batches that it is fastest with."""
    print(f"\nbulk submit: {count:,} small tasks a round, one client; {rounds} rounds; load {load()}")
    contenders = [
        Contender(f"{name}, batches of {batch:,}", module, {"submit_batch": batch}, store=kept)
        for name, module, kept in (("PgQueuer", "pgqueuer", "PostgreSQL"), (f"Forebay {store}", "ours", store))
        for batch in _BATCHES
        if rivals or module == "ours"
    ]
    rows = {each: Row(each.name, each.is_ours) for each in contenders}
    for turn in range(rounds):
        for contender in contenders if turn % 2 == 0 else contenders[::-1]:
            rows[contender].figures.append(_measure(contender, count, ground))
    theirs = max((row.median for row in rows.values() if not row.is_ours), default=0.0)
    ours = max(row.median for row in rows.values() if row.is_ours)
    print(f"{'median of rounds':>45} {'tasks/s':>9} {'least':>8} {'most':>8} {'/PgQueuer':>10}")
    for row in rows.values():
        ratio = f"{row.median / theirs:>9.2f}x" if theirs else ""
        print(f"{row.name:>45} {row.median:>9,.0f} {min(row.figures):>8,.0f} {max(row.figures):>8,.0f} {ratio}")
    verdicts = [at_least(1.0, ours / theirs, "/PgQueuer ")] if theirs else []
    for verdict in verdicts:
        print(f"{verdict} ({verdict.found:.2f}x); each task is in the store once; load {load()}")
    machine_readable("bulk", list(rows.values()), verdicts, tasks=count)


def _measure(contender: Contender, count: int, ground: Ground) -> float:
    engine = side(contender.side)
    with ground.place(contender) as orders:
        engine.prepare(orders)
        spent_s = engine.fill(orders, count)
        recorded = engine.recorded(orders)
        waiting = recorded.waiting()
        recorded.close()
        if waiting != count:
            raise Wrong(f"{contender.name}: {waiting} tasks wait, not {count}")
    return count / spent_s
