"""How fast whole engines on PostgreSQL are, and how well they use a cap: Forebay beside its rivals, on one server."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib.metadata import version

from benchmarks.fleet.bulk import bulk
from benchmarks.fleet.cap import cap
from benchmarks.fleet.crew import Wrong
from benchmarks.fleet.depth import depth
from benchmarks.fleet.ground import Ground, ground, load
from benchmarks.fleet.latency import latency
from benchmarks.fleet.loose import loose
from benchmarks.fleet.submit import submit
from benchmarks.fleet.throughput import throughput

PARTS = ("throughput", "bulk", "submit", "latency", "depth", "cap", "loose")
_PACKAGES = ("pgqueuer", "asyncpg", "procrastinate", "dbos", "pydocket", "psycopg", "redis", "huey")


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench fleet", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="may be repeated")
    parser.add_argument("--rounds", type=int, help="of throughput, bulk, submit, cap and loose; 3, quick 1")
    parser.add_argument("--tasks", type=int, help="in a round of throughput; 10,000, quick 3,000")
    parser.add_argument("--submits", type=int, help="of latency; 1,200, quick 60")
    parser.add_argument("--bulk", type=int, help="tasks of bulk; 50,000, quick 10,000")
    parser.add_argument("--one-by-one", type=int, help="tasks in a round of submit; 2,000, quick 200")
    parser.add_argument("--waiting", type=int, help="tasks pending in depth; 1,000,000, quick 20,000")
    parser.add_argument("--exchanges", type=int, help="of depth; 1,000, quick 200")
    parser.add_argument("--seconds", type=float, help="of each run under the cap; 5, quick 2")
    parser.add_argument("--store", choices=("PostgreSQL", "SQLite"), default="PostgreSQL", help="of Forebay's tasks")
    parser.add_argument("--alone", action="store_true", help="Forebay without its rivals")
    parser.add_argument("--rivals", action="store_true", help="of cap: the rivals without Forebay")
    parser.add_argument("--quick", action="store_true", help="small: whether all of it runs")
    options = parser.parse_args()
    failed = []
    with ground() as on:
        print(f"{os.cpu_count()} cores, load {load()}, Python {platform.python_version()}, {on.versions}", end=", ")
        print(", ".join(f"{name} {version(name)}" for name in _PACKAGES))
        for part in options.only or PARTS:
            try:
                _run(part, on, options)
            except Wrong as wrong:
                failed.append(part)
                print(f"{part}: FAILED: {wrong}", flush=True)
    if failed:
        sys.exit(f"failed, and so without figures: {', '.join(failed)}")


def _run(part: str, on: Ground, options: argparse.Namespace) -> None:
    quick, store, rivals = options.quick, options.store, not options.alone
    rounds = options.rounds or (1 if quick else 3)
    match part:
        case "throughput":
            throughput(on, rounds, options.tasks or (3000 if quick else 10_000), store=store, rivals=rivals)
        case "bulk":
            bulk(on, rounds, options.bulk or (10_000 if quick else 50_000), store=store, rivals=rivals)
        case "submit":
            submit(on, rounds, options.one_by_one or (200 if quick else 2000), rivals=rivals)
        case "latency":
            latency(on, options.submits or (60 if quick else 1200), store=store, rivals=rivals)
        case "depth":
            many = options.waiting or (20_000 if quick else 1_000_000)
            depth(on, many, options.exchanges or (200 if quick else 1000), store=store)
        case "cap":
            seconds = options.seconds or (2.0 if quick else 5.0)
            cap(on, rounds, seconds, rivals=rivals, us=not options.rivals)
        case _:
            loose(on, rounds, 300 if quick else 1500, store=store)


if __name__ == "__main__":
    main()
