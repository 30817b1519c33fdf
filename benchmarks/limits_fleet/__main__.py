"""How a limit carries many processes: real ones, forked, with a judge beside them and local semaphores to compare."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.limits_fleet.grounds import STORES, Ground, grounds
from benchmarks.limits_fleet.phase import Measured, measure_forebay, measure_local
from benchmarks.limits_fleet.plan import PRESETS, Plan, quick
from benchmarks.limits_fleet.processes import prefer
from benchmarks.limits_fleet.telling import tell, tell_curve

_QUICK = ("200x5", "500x1", "sqlite")
_FIELDS = ("callers", "in_flight", "call_s", "seconds", "warm_s", "store", "window_n", "window_s", "tasks")


def main() -> None:
    options = _parser().parse_args()
    if options.prefer:
        prefer(os.getpid())
    fleets = _fleets(options)
    stores = {plan.store for plans in fleets.values() for plan in plans}
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}", flush=True)
    with (
        grounds([name for name in STORES if name in stores]) as found,
        tempfile.TemporaryDirectory(prefix="forebay-bench-", ignore_cleanup_errors=True) as folder,
    ):
        for name, plans in fleets.items():
            rows = []
            for plan in plans:
                ours, alone = _measure(plan, found[plan.store], Path(folder), options.rounds)
                ratio = tell(plan, ours, alone)
                rows.append((plan, statistics.median(each.verdict.rate for each in ours), ratio))
            if len(rows) > 1:
                tell_curve(name, rows)


def _measure(plan: Plan, ground: Ground, folder: Path, rounds: int) -> tuple[list[Measured], list[Measured]]:
    ours, alone = [], []
    for _ in range(rounds):
        alone.append(measure_local(plan, folder))
        ours.append(measure_forebay(plan, ground, folder))
    return ours, alone


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev bench limits_fleet", description=__doc__)
    parser.add_argument("--preset", choices=PRESETS, action="append", help="may be repeated (default: all of them)")
    parser.add_argument("--quick", action="store_true", help="some presets in small, in 20 s: whether all of it runs")
    parser.add_argument("--rounds", type=int, default=1, help="of each fleet, interleaved (default: %(default)s)")
    parser.add_argument(
        "--prefer", action="store_true", help="take more of a machine that others use too, as the servers always do"
    )
    own = parser.add_argument_group("a fleet of your own, or other numbers for the presets")
    own.add_argument("--processes", type=int, action="append", help="may be repeated, for a curve")
    own.add_argument("--callers", type=int, help="in each process")
    own.add_argument("--in-flight", type=int, help="of the limit (default: half of the callers)")
    own.add_argument("--call-s", type=float, metavar="S", help="how long a call takes")
    own.add_argument("--window-n", type=int, metavar="N", help="calls in a window (default: no window)")
    own.add_argument("--window-s", type=float, metavar="S", help="how long the window is")
    own.add_argument("--store", choices=STORES)
    own.add_argument("--seconds", type=float, metavar="S", help="how long it is measured")
    own.add_argument("--warm-s", type=float, metavar="S", help="how long before that the first process starts")
    own.add_argument("--tasks", action="store_true", default=None, help="callers are tasks of an event loop")
    return parser


def _fleets(options: argparse.Namespace) -> dict[str, list[Plan]]:
    given = {name: getattr(options, name) for name in _FIELDS if getattr(options, name) is not None}
    if options.processes and not options.preset:
        usual = {"callers": 5, "call_s": 0.25, "seconds": 10.0} | given
        return {"own": [_own(processes, usual) for processes in options.processes]}
    names = options.preset or (_QUICK if options.quick else PRESETS)
    fleets = {}
    for name in names:
        plans = [quick(plan) if options.quick else plan for plan in PRESETS[name]]
        fleets[name] = [replace(plan, **given) for plan in (plans[-1:] if options.quick else plans)]
    return fleets


def _own(processes: int, given: dict[str, float]) -> Plan:
    half = max(1, int(processes * given["callers"]) // 2)
    return Plan(processes=processes, **({"in_flight": half} | given))  # type: ignore[arg-type]  # checked by argparse


if __name__ == "__main__":
    main()
