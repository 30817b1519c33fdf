"""How fast a whole engine on SQLite is beside Huey: tasks a second, submit to start, and memory over many tasks."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks.work.latency import latency
from benchmarks.work.memory import memory
from benchmarks.work.throughput import throughput

PARTS = ("throughput", "latency", "memory")


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench engine", description=__doc__)
    parser.add_argument("--rounds", type=int, help="of throughput; 5, quick 3")
    parser.add_argument("--tasks", type=int, help="in a round of throughput; 20,000, quick 5,000")
    parser.add_argument("--submits", type=int, help="of latency; 300, quick 100")
    parser.add_argument("--many", type=int, help="tasks of memory; 1,000,000, quick 50,000")
    parser.add_argument("--keep", action="store_true", help="memory: keep what is completed")
    parser.add_argument("--blocking", action="store_true", help="memory: with blocking handlers")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    quick = options.quick
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for part in (options.only,) if options.only else PARTS:
        with tempfile.TemporaryDirectory(prefix="forebay-bench-") as temporary:
            folder = Path(temporary)
            match part:
                case "throughput":
                    count = options.tasks or (5_000 if quick else 20_000)
                    throughput(folder, options.rounds or (3 if quick else 5), count)
                case "latency":
                    latency(folder, options.submits or (100 if quick else 300))
                case _:
                    many = options.many or (50_000 if quick else 1_000_000)
                    memory(folder, many, keep=options.keep, blocking=options.blocking)


if __name__ == "__main__":
    main()
