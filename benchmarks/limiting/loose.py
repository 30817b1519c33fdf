"""What a bound that does not bind costs: short calls at some concurrency, with a slot and without."""

from __future__ import annotations

import asyncio
from functools import partial

from benchmarks.limiting import ours
from benchmarks.limiting.comparing import Setting, measure, table
from benchmarks.limiting.gates import Contender, aplain

CONCURRENCY = 10
CALL_S = 0.02
_FREE = Contender("no limit", aopens=aplain)


def loose(stores: dict[str, str], rounds: int, seconds: float) -> None:
    call = partial(asyncio.sleep, CALL_S)
    for name, address in stores.items():
        setting = Setting(
            address=partial(str, address), callers=CONCURRENCY, rounds=rounds, seconds=seconds, ainside=call
        )
        rows = measure((ours.TASKS, _FREE), setting)
        title = f"calls of {1000 * CALL_S:g} ms at concurrency {CONCURRENCY} under a bound that does not bind, {name}"
        table(title, rows, rows[1], asked=0.95)
