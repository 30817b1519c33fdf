"""How long an idle worker in another process takes from the call of submit to the start of the handler."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from benchmarks.fleet.crew import Crew
from benchmarks.fleet.ground import Ground, load
from benchmarks.fleet.measuring import verify
from benchmarks.fleet.orders import Contender, side
from benchmarks.fleet.telling import at_most, machine_readable, percentile
from benchmarks.work.marks import Marks

_WARM = 20
_APART_S = (0.02, 0.05)
_TURNS = 6


def latency(ground: Ground, count: int, *, store: str = "PostgreSQL", rivals: bool = True) -> None:
    """Both in many turns, so that whatever else the machine does slows both alike."""
    print(
        f"\nlatency: submit to start, idle worker in another process; {count} submits, 20 to 50 ms apart; load {load()}"
    )
    contenders = [Contender("PgQueuer", "pgqueuer")] if rivals else []
    contenders.append(Contender(f"Forebay {store}", "ours", store=store))
    times: dict[str, list[float]] = {each.name: [] for each in contenders}
    shares: dict[str, list[float]] = {each.name: [] for each in contenders}
    for _ in range(_TURNS):
        for contender in contenders:
            found, share = _measure(contender, -(-count // _TURNS), ground)
            times[contender.name] += found
            shares[contender.name].append(share)
    print(f"{'':>45} {'p50 ms':>8} {'p99 ms':>8} {'worker CPU':>11}")
    rows = []
    for contender in contenders:
        p50, p99 = (percentile(times[contender.name], percent) for percent in (50, 99))
        cpu = sum(shares[contender.name]) / _TURNS
        rows.append({"name": contender.name, "p50_ms": p50, "p99_ms": p99, "cpu": cpu})
        print(f"{contender.name:>45} {p50:>8.2f} {p99:>8.2f} {cpu:>10.1%}")
    verdicts = []
    if rivals:
        theirs, ours = rows
        verdicts = [
            at_most(1.0, float(str(ours[name])) / float(str(theirs[name])), f"{name[:3]} /PgQueuer ")
            for name in ("p50_ms", "p99_ms")
        ]
        print("; ".join(f"{verdict} ({verdict.found:.2f}x)" for verdict in verdicts) + f"; load {load()}")
    machine_readable("latency", rows, verdicts, submits=count)


def _measure(contender: Contender, count: int, ground: Ground) -> tuple[list[float], float]:
    """Milliseconds of each submit, and the share of a core that the worker used meanwhile."""
    engine = side(contender.side)
    total = _WARM + count
    with ground.place(contender) as orders:
        marked = Marks.create(orders.marks, total)
        engine.prepare(orders)
        recorded = engine.recorded(orders)
        with Crew(orders, 1) as crew, engine.submitting(orders) as submit:
            crew.go()
            for index in range(_WARM):
                submit(index)
            crew.until_begun(marked, _WARM)
            time.sleep(0.5)
            began, used = time.monotonic(), crew.cpu_s()
            called = [_pause_and(submit, index) for index in range(_WARM, total)]
            crew.until_begun(marked, total)
            share = (crew.cpu_s() - used) / (time.monotonic() - began)
            crew.until(recorded.is_complete, within_s=10)
        verify(contender.name, marked, total, recorded.ended())
        recorded.close()
        starts = (marked.started(index) for index in range(_WARM, total))
        return [(start - call) / 1e6 for start, call in zip(starts, called, strict=True)], share


def _pause_and(submit: Callable[[int], object], index: int) -> int:
    time.sleep(random.uniform(*_APART_S))
    called = time.monotonic_ns()
    submit(index)
    return called
