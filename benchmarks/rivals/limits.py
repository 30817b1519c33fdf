"""How fast and how exact limiters are: Forebay beside bare Redis, limits, pyrate-limiter and others, in one run."""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from benchmarks.limiting import speed
from benchmarks.limiting.crowds import crowds
from benchmarks.limiting.foresight import foresight
from benchmarks.limiting.handover import handovers
from benchmarks.limiting.loose import loose
from benchmarks.limiting.server import ServerTime
from benchmarks.limiting.use import use
from tests.servers.postgres import postgres
from tests.servers.valkey import valkey

PARTS = ("one", "many", "memory", "sqlite", "handover", "use", "loose", "foresight", "crowds")
_PACKAGES = ("redis", "limits", "coredis", "pyrate-limiter", "throttled-py", "redis-rate-limiters", "aiolimiter")
_ASKED_MS = {"Redis": 10.0, "SQLite": 50.0, "PostgreSQL": 50.0}


class Ground(NamedTuple):
    """Where everything runs, and how long."""

    server: ServerTime
    address: str
    postgres: str
    folder: Path
    rounds: int
    seconds: float
    quick: bool


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench limits", description=__doc__)
    parser.add_argument("--rounds", type=int, help="of each comparison; 5, quick 1")
    parser.add_argument("--seconds", type=float, help="of each round; 1, quick 0.2; use: five times as long")
    parser.add_argument("--quick", action="store_true", help="less than half a minute: whether all of it runs")
    parser.add_argument("--only", choices=PARTS, action="append", help="may be repeated")
    options = parser.parse_args()
    rounds = options.rounds or (1 if options.quick else 5)
    seconds = options.seconds or (0.2 if options.quick else 1.0)
    with (
        valkey(own=True) as running,
        postgres(own=True, durable=True) as database,
        tempfile.TemporaryDirectory(prefix="forebay-bench-", ignore_cleanup_errors=True) as temporary,
    ):
        server = ServerTime(running.url)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}", end=", ")
        print(", ".join([server.version, *(f"{name} {version(name)}" for name in _PACKAGES)]))
        for part in options.only or PARTS:
            server.empty()
            _run(part, Ground(server, running.url, database.url, Path(temporary), rounds, seconds, options.quick))
        server.close()


def _run(part: str, on: Ground) -> None:
    redis, sqlite = {"Redis": on.address}, {"SQLite": f"sqlite:///{on.folder / f'{part}.db'}"}
    all_stores = redis | sqlite | {"PostgreSQL": on.postgres}
    some = redis if on.quick else all_stores
    match part:
        case "one":
            speed.one_caller(on.server, on.address, on.rounds, on.seconds)
        case "many":
            speed.many_callers(on.server, on.address, on.rounds, on.seconds, quick=on.quick)
        case "memory":
            speed.memory(on.rounds, on.seconds, quick=on.quick)
        case "sqlite":
            speed.sqlite(on.folder, on.rounds, on.seconds)
        case "handover":
            handovers(all_stores, 30 if on.quick else 200, _ASKED_MS, quick=on.quick)
        case "use":
            use(some, on.folder, 5 * on.seconds, quick=on.quick)
        case "loose":
            loose(some | {"memory": "memory://"}, on.rounds, on.seconds)
        case "crowds":
            crowds(on.server, on.address, on.folder, on.rounds, on.seconds, quick=on.quick)
        case _:
            foresight(some, 20 if on.quick else 200, 3 if on.quick else 20)


if __name__ == "__main__":
    main()
