"""What an exchange costs with very many tasks waiting, beside one with few."""

from __future__ import annotations

import time
from contextlib import ExitStack

from benchmarks.fleet.ground import Ground, load
from benchmarks.fleet.orders import Contender
from benchmarks.fleet.rows import settle
from benchmarks.fleet.telling import at_most, machine_readable, percentile
from benchmarks.ledger import Worker, tasks
from forebay.stores.address import open_ledger
from forebay.stores.base import Ledger

FEW = 1000
_CLAIMS = 10
_FILL = 5000
_WARM = 20


def depth(ground: Ground, many: int, exchanges: int, *, store: str = "PostgreSQL") -> None:
    """The ledgers take turns, so that whatever else the machine does slows both alike."""
    print(
        f"\ndepth: one exchange of {_CLAIMS}, {exchanges} with each number of tasks pending, in turns; filling …",
        flush=True,
    )
    contender = Contender("Forebay", "ours", store=store)
    times: dict[int, list[float]] = {}
    with ExitStack() as stack:
        workers = {}
        for count in (FEW, many):
            orders = stack.enter_context(ground.place(contender))
            ledger = open_ledger(orders.address)
            stack.callback(ledger.close)
            _fill(ledger, count)
            if store == "PostgreSQL":
                settle(orders.address)
            workers[count] = Worker(ledger)
            times[count] = []
        for turn in range(_WARM + exchanges):
            for count, worker in workers.items():
                worker.ledger.submit(tasks(_CLAIMS))
                began = time.perf_counter()
                claimed = worker.step(_CLAIMS)
                if turn >= _WARM:
                    times[count].append((time.perf_counter() - began) * 1000)
                assert claimed == _CLAIMS
    print(f"{'pending':>45} {'p50 ms':>8} {'p99 ms':>8}")
    rows = []
    for count, found in times.items():
        p50, p99 = percentile(found, 50), percentile(found, 99)
        rows.append({"pending": count, "p50_ms": p50, "p99_ms": p99})
        print(f"{f'{count:,}':>45} {p50:>8.2f} {p99:>8.2f}")
    verdict = at_most(2.0, rows[1]["p99_ms"] / rows[0]["p99_ms"], "p99 ratio ")
    print(f"{verdict} ({verdict.found:.2f}x); load {load()}")
    machine_readable("depth", rows, [verdict], exchanges=exchanges)


def _fill(ledger: Ledger, count: int) -> None:
    for start in range(0, count, _FILL):
        ledger.submit(tasks(min(_FILL, count - start)))
