"""How soon a slot that one process gives back is used by another that waits for it."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

from benchmarks.limiting.comparing import met
from forebay.limits import Limit, Limiter

_LIMIT = "handover"
_HOLD_S = 0.005
_WAIT_S = 60.0
_START_S = 30.0


def handovers(stores: dict[str, str], count: int, asked_ms: dict[str, float], *, quick: bool) -> None:
    """`stores`: addresses by name. Two processes take turns, the slot of a limit of one is held for 5 ms each time."""
    print(f"\nhand-over to another process: {count}, one in flight, held for {1000 * _HOLD_S:g} ms")
    print(f"{'':>20} {'p50 ms':>8} {'p99 ms':>8} {'most':>8} {'turns':>6}   load {os.getloadavg()[0]:.1f}")
    for name, address in stores.items():
        for form in ("sync",) if quick else ("sync", "async"):
            spans = _spans(address, form, count)
            gaps = [
                1e-6 * (later["enter"] - earlier["leave"])
                for earlier, later in pairwise(spans)
                if earlier["who"] != later["who"]
            ]
            overlaps = sum(later["enter"] < earlier["leave"] for earlier, later in pairwise(spans))
            middle, high = statistics.median(gaps), statistics.quantiles(gaps, n=100)[98]
            said = f"asked <= {asked_ms[name]:g} ms: p50 {met(middle <= asked_ms[name])}"
            said += f", p99 {met(high <= asked_ms[name])}" + (f", {overlaps} OVERLAPS" if overlaps else "")
            turns = len(gaps)
            print(
                f"{f'{name}, {form}':>20} {middle:>8.2f} {high:>8.2f} {max(gaps):>8.2f} {turns:>6}   {said}", flush=True
            )


def _spans(address: str, form: str, count: int) -> list[dict[str, Any]]:
    """Who held the slot from when to when, in order; instants are CLOCK_MONOTONIC's, which processes share."""
    command = [sys.executable, "-m", "benchmarks.limiting.handover", address, form, str(count // 2)]
    processes = [
        subprocess.Popen([*command, who], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for who in "ab"
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise SystemExit("a process of the hand-over did not start")
        found: list[dict[str, Any]] = []
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            text, _ = process.communicate(timeout=_START_S + count * 0.2)
            found += json.loads(text)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return sorted(found, key=lambda span: int(span["enter"]))


def _take_turns(limiter: Limiter, count: int, who: str) -> list[dict[str, Any]]:
    spans = []
    for _ in range(count):
        with limiter.slot(_LIMIT, timeout_s=_WAIT_S):
            enter = time.monotonic_ns()
            time.sleep(_HOLD_S)
            spans.append({"who": who, "enter": enter, "leave": time.monotonic_ns()})
    return spans


async def _atake_turns(limiter: Limiter, count: int, who: str) -> list[dict[str, Any]]:
    spans = []
    for _ in range(count):
        async with limiter.slot(_LIMIT, timeout_s=_WAIT_S):
            enter = time.monotonic_ns()
            await asyncio.sleep(_HOLD_S)
            spans.append({"who": who, "enter": enter, "leave": time.monotonic_ns()})
    return spans


def main() -> None:
    address, form, count, who = sys.argv[1:]
    with Limiter(address, environment="bench") as limiter:
        limiter.define(Limit(_LIMIT, in_flight=1))
        with limiter.slot(_LIMIT, timeout_s=_WAIT_S):
            pass  # whatever only the first call costs
        print("ready", flush=True)
        sys.stdin.readline()
        if form == "async":
            spans = asyncio.run(_atake_turns(limiter, int(count), who))
        else:
            spans = _take_turns(limiter, int(count), who)
        print(json.dumps(spans), flush=True)


if __name__ == "__main__":
    main()
