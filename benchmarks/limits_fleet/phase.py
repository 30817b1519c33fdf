"""One measurement: a fleet of one side, its judge, and what store and processes cost meanwhile."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.limits_fleet import judge, processes
from benchmarks.limits_fleet.crew import Broken, Crew
from benchmarks.limits_fleet.grounds import Ground, Reading, Watch
from benchmarks.limits_fleet.judge import GO, OVER, Verdict, note
from benchmarks.limits_fleet.plan import Plan
from benchmarks.limits_fleet.sides import ENVIRONMENT, Side, forebay, local
from benchmarks.limits_fleet.tally import Tally
from forebay.limits import Limiter

_VERDICT_WITHIN_S = 60.0
_PIPE_BYTES = 1 << 20
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of all client processes together, and of one of them."""

    cpu_s: float
    rss_mb: float
    own_mb: float


@dataclass(frozen=True, slots=True)
class Measured:
    verdict: Verdict
    tally: Tally
    store: Reading
    cost: Cost


def measure_forebay(plan: Plan, ground: Ground, folder: Path) -> Measured:
    with ground.place() as address:
        with Limiter(address, environment=ENVIRONMENT) as limiter:
            limiter.define(plan.limit)
        return measure(plan, forebay(plan, address), folder, ground)


def measure_local(plan: Plan, folder: Path) -> Measured:
    return measure(plan, local(plan), folder)


def measure(plan: Plan, side: Side, folder: Path, ground: Ground | None = None) -> Measured:
    """`ground` is the store that is watched, where anything is shared."""
    window = judge.Window(plan.window_n, plan.window_s, plan.enforced_s) if plan.window_n else None
    with _judging(window) as (process, pipe):
        with Crew(plan, side, pipe, folder) as crew:
            watch = ground.watch() if ground else None
            try:
                store, cost = _count(plan, crew, pipe, watch)
            finally:
                if watch is not None:
                    watch.close()
            tally = crew.reported()
        os.close(pipe)
        said, _ = process.communicate(timeout=_VERDICT_WITHIN_S)
    if process.returncode:
        raise Broken("the judge came to no verdict")
    return Measured(Verdict(**json.loads(said)), tally, store, cost)


def _count(plan: Plan, crew: Crew, pipe: int, watch: Watch | None) -> tuple[Reading, Cost]:
    counts_from = time.monotonic() + plan.warm_s
    counts_until = counts_from + plan.seconds
    crew.go(counts_from, counts_until)
    _sleep_until(counts_from)
    note(pipe, GO)
    if watch is not None:
        watch.restart()
    used_s = processes.cpu_s(crew.pids)
    _sleep_until(counts_until)
    note(pipe, OVER)
    store = watch.read() if watch is not None else Reading()
    used_s = processes.cpu_s(crew.pids) - used_s
    return store, Cost(used_s, processes.rss_mb(crew.pids), processes.own_mb(crew.pids))


@contextmanager
def _judging(window: judge.Window | None) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The judge's process and the pipe to it, which the block closes when all has been said."""
    reads, pipe = os.pipe()
    with suppress(PermissionError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    command = [sys.executable, "-m", "benchmarks.limits_fleet.judge", *([json.dumps(asdict(window))] if window else [])]
    process = subprocess.Popen(command, cwd=_ROOT, stdin=reads, stdout=subprocess.PIPE, start_new_session=True)
    processes.prefer(process.pid)
    os.close(reads)
    try:
        yield process, pipe
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
            with suppress(OSError):
                os.close(pipe)  # what raised before the block did


def _sleep_until(at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic()))
