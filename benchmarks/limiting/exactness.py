"""How many calls each limiter lets into its window at worst, by a clock that is none of the limiter's."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from functools import partial

from benchmarks.limiting.field import named
from benchmarks.limiting.gates import Bound, Contender

CALLERS = 25
_END_S = 30.0
# One call when a window of the calendar begins, then this share of it nothing, then all that it can: where windows
# turn soon, whether they began with the calendar or with the first call, those who count by them show what they do.
_PAUSE = 2 / 3


def worst_counts(places: Mapping[str, str], bound: Bound, windows: int, *, at_once: int) -> dict[str, int]:
    """By contender's name; `places` has their addresses. Each runs in a process of its own.

    Few of them `at_once`: where cores are short a call is late after it was let in, and the limiter is blamed.
    """
    with ThreadPoolExecutor(at_once) as pool:
        asked = {
            name: pool.submit(_asked, json.dumps([name, address, *astuple(bound), windows]))
            for name, address in places.items()
        }
        return {name: future.result() for name, future in asked.items()}


def _asked(orders: str) -> int:
    command = [sys.executable, "-m", "benchmarks.limiting.exactness", orders]
    return int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def _worst_count(name: str, address: str, bound: Bound, windows: int) -> int:
    contender = named(name)
    instants: list[float] = []
    if contender.aopens is not None:
        asyncio.run(_saturate_by_tasks(contender, address, bound, windows, instants))
    else:
        _saturate_by_threads(contender, address, bound, windows, instants)
    if not instants:
        raise SystemExit(f"{name} let nobody in")
    return fullest(instants, bound.per_s)


def _until_turn_s(bound: Bound) -> float:
    return -time.time() % bound.per_s


def _saturate_by_threads(contender: Contender, address: str, bound: Bound, windows: int, instants: list[float]) -> None:
    assert contender.opens is not None
    with contender.opens(address, bound) as gate:
        time.sleep(_until_turn_s(bound))
        gate(partial(_note, instants))
        time.sleep(_PAUSE * bound.per_s)
        ends_at = time.monotonic() + windows * bound.per_s
        failures: list[Exception] = []

        def call() -> None:
            try:
                while time.monotonic() < ends_at:
                    gate(partial(_note, instants))
            except Exception as error:  # noqa: BLE001 - whatever it was, the count would mean nothing
                failures.append(error)

        for _ in range(CALLERS):
            threading.Thread(target=call, daemon=True).start()
        time.sleep(max(0.0, ends_at - time.monotonic()))
        # Those who still wait are left behind: what they hear when it is closed does not count.
        if failures:
            raise failures[0]


def _note(instants: list[float]) -> None:
    instants.append(time.monotonic())


async def _saturate_by_tasks(
    contender: Contender, address: str, bound: Bound, windows: int, instants: list[float]
) -> None:
    assert contender.aopens is not None

    async def note() -> None:
        _note(instants)

    async with contender.aopens(address, bound) as gate:
        await asyncio.sleep(_until_turn_s(bound))
        await gate(note)
        await asyncio.sleep(_PAUSE * bound.per_s)
        ends_at = time.monotonic() + windows * bound.per_s

        async def call() -> None:
            while time.monotonic() < ends_at:
                await gate(note)

        tasks = [asyncio.create_task(call()) for _ in range(CALLERS)]
        done, waiting = await asyncio.wait(tasks, timeout=max(0.0, ends_at - time.monotonic()))
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting, timeout=_END_S)
        for task in done:
            task.result()


def fullest(instants: list[float], window_s: float) -> int:
    """The most of them in any half-open span of this length."""
    found = sorted(instants)
    worst = first = 0
    for last, instant in enumerate(found):
        while instant - found[first] >= window_s:
            first += 1
        worst = max(worst, last - first + 1)
    return worst


def main() -> None:
    name, address, n, per_s, in_flight, windows = json.loads(sys.argv[1])
    print(_worst_count(name, address, Bound(n, per_s, in_flight), windows), flush=True)
    os._exit(0)  # some who wait are threads of a rival's, which would be waited for


if __name__ == "__main__":
    main()
