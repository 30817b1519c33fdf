"""How fast one client submits small tasks one by one, each with a commit of its own that is synced."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.fleet.crew import Wrong
from benchmarks.fleet.ground import Ground, load
from benchmarks.fleet.orders import Contender, side
from benchmarks.fleet.telling import Row, at_least, machine_readable

_WARM = 60
_TURN = 20
CONTENDERS = (
    Contender("PostgreSQL, one INSERT and commit", "bare"),
    Contender("PgQueuer", "pgqueuer"),
    Contender("Forebay PostgreSQL", "ours"),
    Contender("SQLite, one INSERT and commit", "bare", store="SQLite"),
    Contender("Huey", "huey", store="SQLite"),
    Contender("Forebay SQLite", "ours", store="SQLite"),
)
_RIVALS = ("pgqueuer", "huey")


def submit(ground: Ground, rounds: int, count: int, *, rivals: bool = True) -> None:
    """All take turns of a few tasks, so that whatever else the machine does slows all of them alike."""
    print(f"\nsubmit: {count:,} small tasks a round one by one, one client; {rounds} rounds; load {load()}")
    contenders = [each for each in CONTENDERS if rivals or each.side not in _RIVALS]
    rows = {each: Row(each.name, each.is_ours) for each in contenders}
    used_s = dict.fromkeys(contenders, 0.0)
    with ExitStack() as stack:
        clients = {each: stack.enter_context(_client(each, rounds * count, ground)) for each in contenders}
        for turn in range(rounds):
            first = _WARM + turn * count
            times: dict[Contender, list[float]] = {each: [] for each in contenders}
            for start in range(first, first + count, _TURN):
                for contender in contenders if start // _TURN % 2 == 0 else contenders[::-1]:
                    one = clients[contender]
                    began, used = time.perf_counter(), time.process_time()
                    for index in range(start, start + _TURN):
                        one(index)
                    times[contender].append(time.perf_counter() - began)
                    used_s[contender] += time.process_time() - used
            for contender, spent in times.items():
                rows[contender].figures.append(_TURN / statistics.median(spent))
    print(f"{'median of rounds':>45} {'tasks/s':>9} {'least':>8} {'most':>8} {'/rival':>8} {'/floor':>8} {'CPU us':>7}")
    verdicts = []
    for contender, row in rows.items():
        same_store = {other.side: rows[other].median for other in contenders if other.store == contender.store}
        rival = next((rate for name, rate in same_store.items() if name in _RIVALS), None)
        beside = "" if rival is None else f"{row.median / rival:.2f}x"
        print(
            f"{row.name:>45} {row.median:>9,.0f} {min(row.figures):>8,.0f} {max(row.figures):>8,.0f} {beside:>8}"
            f" {row.median / same_store['bare']:>7.2f}x {used_s[contender] / (rounds * count) * 1e6:>7.0f}"
        )
        if row.is_ours and rival is not None:
            verdicts.append(at_least(1.0, row.median / rival, f"{row.name} /rival "))
    for verdict in verdicts:
        print(f"{verdict} ({verdict.found:.2f}x)")
    print(f"CPU: of the client; each task is in the store once; load {load()}")
    machine_readable("submit", list(rows.values()), verdicts, tasks=count)


@contextmanager
def _client(contender: Contender, count: int, ground: Ground) -> Iterator[Callable[[int], object]]:
    """A warm one; at the end every task has to be there."""
    engine = side(contender.side)
    with ground.place(contender) as orders:
        engine.prepare(orders)
        with engine.submitting(orders) as one:
            for index in range(_WARM):
                one(index)
            yield one
        recorded = engine.recorded(orders)
        waiting = recorded.waiting()
        recorded.close()
        if waiting != _WARM + count:
            raise Wrong(f"{contender.name}: {waiting} tasks wait, not {_WARM + count}")
