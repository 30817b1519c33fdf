"""Ours beside a moving window, a log and a lock: one caller, many callers of one process, and many processes."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.limiting import ours, theirs
from benchmarks.limiting.comparing import Setting, measure, table
from benchmarks.limiting.gates import LOOSE, Bound, Contender
from benchmarks.limiting.server import ServerTime
from benchmarks.limits_fleet import phase
from benchmarks.limits_fleet.judge import combined
from benchmarks.limits_fleet.plan import Plan
from benchmarks.limits_fleet.sides import Side
from benchmarks.limits_fleet.telling import worst_window

MANY = 50
_ONE = Bound(n=LOOSE.n, per_s=LOOSE.per_s, in_flight=1)
_TIGHT = Bound(n=200, per_s=2, in_flight=1_000)
_WINDOWS = (ours.THREADS, theirs.MOVING_WINDOW, theirs.PYRATE)
_LOCKS = (ours.THREADS, theirs.LOCK)


def crowds(server: ServerTime, address: str, folder: Path, rounds: int, seconds: float, *, quick: bool) -> None:
    for callers in (1, MANY):
        name = "one caller" if callers == 1 else f"{callers} callers of one process"
        for title, bound, contenders in (("nothing binds", LOOSE, _WINDOWS), ("one at a time", _ONE, _LOCKS)):
            setting = Setting(
                address=lambda: address, callers=callers, rounds=rounds, seconds=seconds, bound=bound, server=server
            )
            rows = measure(contenders, setting)
            table(f"Redis, {name}, {title}", rows, max(rows[1:], key=lambda row: row.rate))
    processes = 6 if quick else MANY
    span_s, warm_s = (0.5, 0.5) if quick else (max(5.0, 5 * seconds), 4.0)
    for title, bound, contenders in (
        ("nothing binds", LOOSE, _WINDOWS),
        (f"{_TIGHT.n} per {_TIGHT.per_s} s", _TIGHT, _WINDOWS),
        ("one at a time", _ONE, _LOCKS),
    ):
        plan = Plan(
            processes=processes,
            callers=1,
            in_flight=bound.in_flight,
            call_s=0.0,
            seconds=max(span_s, 4.0 * _TIGHT.per_s) if bound is _TIGHT and not quick else span_s,
            warm_s=warm_s,
            window_n=bound.n if bound is _TIGHT else 0,
            window_s=bound.per_s,
        )
        print(f"\nRedis, {processes} processes of one caller, {title}; {rounds} x {plan.seconds:g} s", end="; ")
        print(f"load {os.getloadavg()[0]:.1f}\n{'':>24} {'calls/s':>9} {'peak':>5} {'client us':>10}")
        for contender in contenders:
            found = []
            for _ in range(rounds):
                server.empty()
                found.append(phase.measure(plan, _side(contender, address, bound), folder))
            _tell(contender, bound, plan, found)


def _side(contender: Contender, address: str, bound: Bound) -> Side:
    opens = contender.opens
    assert opens is not None
    return Side(contender.name, opens=lambda _number, _tally: opens(address, bound))


def _tell(contender: Contender, bound: Bound, plan: Plan, found: list[phase.Measured]) -> None:
    verdict = combined([each.verdict for each in found])
    calls = sum(each.verdict.calls for each in found)
    client_us = 1e6 * sum(each.cost.cpu_s for each in found) / calls if calls else 0.0
    worst = f"  {worst_window(verdict, bound.n)}" if plan.window_n else ""
    over = " OVER" if contender.is_ours or not contender.has_windows else ""
    peak = f"{verdict.peak}{over if verdict.peak > bound.in_flight else ''}"
    errors = sum(count for each in found for name, count in each.tally.counts.items() if name.startswith("error "))
    print(
        f"{contender.name:>24} {verdict.rate:>9,.1f} {peak:>5} {client_us:>10,.0f}{worst}"
        f"{f'  {errors} errors' if errors else ''}",
        flush=True,
    )
