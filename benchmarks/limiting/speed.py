"""Acquire and release a second: on Redis beside bare round trips and rivals, in memory beside theirs, on SQLite."""

from __future__ import annotations

import asyncio
import os
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.limiting import bare, local, ours, theirs
from benchmarks.limiting.awake import cores_awake
from benchmarks.limiting.comparing import Row, Setting, measure, table
from benchmarks.limiting.exactness import CALLERS, worst_counts
from benchmarks.limiting.gates import LOOSE, Bound, Contender
from benchmarks.limiting.server import ServerTime

MANY = 50
_TIGHT = Bound(n=20, per_s=2, in_flight=1_000)
_TIGHT_QUICK = Bound(n=20, per_s=1, in_flight=1_000)
_FEW = Bound(n=LOOSE.n * 1_000, per_s=LOOSE.per_s, in_flight=5)
_MEMORY = "memory://"
_DATABASES = 16


def one_caller(server: ServerTime, address: str, rounds: int, seconds: float) -> None:
    setting = Setting(address=lambda: address, callers=1, rounds=rounds, seconds=seconds, server=server)
    _beside_bare(setting, "", asked=0.8)
    # A core that sleeps between two round trips makes both of them slow, and the ratio good.
    with cores_awake():
        _beside_bare(setting, ", cores kept awake", asked=0.7)
    _legend()


def _beside_bare(setting: Setting, how: str, asked: float) -> None:
    rows = measure((ours.THREADS, bare.THREADS, ours.TASKS, bare.TASKS), setting)
    table(f"Redis, one caller, sync{how}", rows[:2], rows[1], asked=asked)
    table(f"Redis, one caller, async{how}", rows[2:], rows[3], asked=asked)


def many_callers(server: ServerTime, address: str, rounds: int, seconds: float, *, quick: bool) -> None:
    setting = Setting(address=lambda: address, callers=MANY, rounds=rounds, seconds=seconds, server=server)
    most = 1 if quick else None
    threads, tasks = (ours.THREADS, *theirs.THREADS[:most]), (ours.TASKS, *theirs.TASKS[:most])
    rows = measure((*threads, *tasks), setting)
    bound, worst = _exact(address, (*threads, *tasks), server, quick=quick)
    best = max((row for row in rows if row.contender.name.startswith(theirs.MOVING)), key=lambda row: row.rate)
    print(f"\n{MANY} callers against {best.contender.name}, which did best of its kind: {best.rate:,.0f}/s")
    for title, part in (("threads", rows[: len(threads)]), ("tasks of one loop", rows[len(threads) :])):
        table(f"Redis, {MANY} {title}", part, best, asked=2.0, worst=worst, allowed=bound.n)
    _legend()
    _explain(bound)


def _exact(
    address: str, contenders: tuple[Contender, ...], server: ServerTime | None, *, quick: bool
) -> tuple[Bound, dict[str, int]]:
    bound, windows = (_TIGHT_QUICK, 1) if quick else (_TIGHT, 3)
    names = [each.name for each in contenders if each.has_windows]
    places = dict.fromkeys(names, address)
    if server is not None:
        server.empty()
        # Those that run at once in databases of their own: their keys must not meet.
        places = {name: f"{address.removesuffix('/0')}/{index % _DATABASES}" for index, name in enumerate(names)}
    return bound, worst_counts(places, bound, windows, at_once=4 if quick else 2)


def _legend() -> None:
    print(
        f"A pair is acquire + release under {LOOSE.in_flight:,} in flight and {LOOSE.n:,} per {LOOSE.per_s} s, which do"
        " not bind. CPU us: of this process, for a pair.\nscripts: EVALSHA for a pair; us each: of the server's time,"
        " INFO commandstats. The rivals that have no release are not charged for one."
    )


def _explain(bound: Bound) -> None:
    print(
        f"worst of {bound.n}: the most calls that a clock outside saw in any {bound.per_s} s under {bound.n} per"
        f" {bound.per_s} s:\none call, a pause of two thirds of a window, then {CALLERS} callers that never pause. If"
        f" cores are short (load {os.getloadavg()[0]:.1f} of {os.cpu_count()}),\ncalls start late after they were let"
        " in, and who is exact by its own clock alone lets in more."
    )


def memory(rounds: int, seconds: float, *, quick: bool) -> None:
    turn = partial(asyncio.sleep, 0)  # so that there are others at all
    loose = Setting(address=lambda: _MEMORY, callers=MANY, rounds=rounds, seconds=seconds, ainside=turn)
    few = Setting(address=lambda: _MEMORY, callers=MANY, rounds=rounds, seconds=seconds, ainside=turn, bound=_FEW)
    tasks = (ours.TASKS, local.AIOLIMITER, local.ASEMAPHORE)
    bound, worst = _exact(_MEMORY, (*tasks, ours.THREADS), None, quick=quick)
    title = f"memory, {MANY} tasks"
    _against_last(f"{title}, nothing binds", measure(tasks, loose), worst, bound)
    _against_last(f"{title}, {_FEW.in_flight} in flight", measure((tasks[0], tasks[2]), few), worst, bound)
    threads = (ours.THREADS, local.SEMAPHORE)
    _against_last(f"memory, {MANY} threads, nothing binds", measure(threads, loose), worst, bound)
    _against_last(f"memory, {MANY} threads, {_FEW.in_flight} in flight", measure(threads, few), worst, bound)
    one = Setting(address=lambda: _MEMORY, callers=1, rounds=rounds, seconds=seconds)
    _against_last("memory, one caller, sync", measure(threads, one), worst, bound)
    _explain(bound)


def _against_last(title: str, rows: list[Row], worst: dict[str, int], bound: Bound) -> None:
    table(title, rows, rows[-1], worst=worst, allowed=bound.n)


def sqlite(folder: Path, rounds: int, seconds: float) -> None:
    def address() -> str:
        return f"sqlite:///{Path(tempfile.mkdtemp(dir=folder)) / 'limits.db'}"

    for callers in (1, MANY):
        setting = Setting(address=address, callers=callers, rounds=rounds, seconds=seconds)
        name = "one caller" if callers == 1 else f"{callers} callers"
        table(f"SQLite, {name}", measure((ours.THREADS, ours.TASKS), setting), None)
    print(f"load {os.getloadavg()[0]:.1f}")
