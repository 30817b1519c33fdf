"""How well a limiter foretells when a call may start: what it said when somebody came, beside how long that took."""

from __future__ import annotations

import asyncio
import os
import random
import statistics

from benchmarks.limiting.comparing import met
from forebay.limits import Busy, Limit, Limiter, Window

_SLOTS = 2
_WAITERS = 10
_CALL_S = 0.05
_SPREAD = 0.2
_WINDOW = Window(5, per_s=0.4)
_WAIT_S = 60.0
_ASKED = 0.2
_ASKED_MS = 10.0


def foresight(stores: dict[str, str], count: int, windows: int) -> None:
    print(
        f"\nforetold and real waits; calls of {1000 * _CALL_S:g} ms ± {_SPREAD:.0%}, {_SLOTS} in flight, {_WAITERS}"
        f" waiting; windows of {_WINDOW}; load {os.getloadavg()[0]:.1f}"
    )
    print(f"{'':>20} {'waits':>6} {'p50 off':>9} {'p90 off':>9} {'bias':>8}")
    for name, address in stores.items():
        with Limiter(address, environment="bench") as limiter:
            pairs = asyncio.run(_in_flight(limiter, count))
            off = [abs(said - real) / real for said, real in pairs if real > 0]
            bias = statistics.median((said - real) / real for said, real in pairs if real > 0)
            middle, high = statistics.median(off), statistics.quantiles(off, n=10)[8]
            said = f"asked p50 <= {_ASKED:.0%}: {met(middle <= _ASKED)}"
            print(
                f"{f'{name}, in flight':>20} {len(off):>6} {middle:>9.1%} {high:>9.1%} {bias:>+8.1%}   {said}",
                flush=True,
            )
            pairs = asyncio.run(_windows(limiter, windows))
            late = [1000 * (real - said) for said, real in pairs]
            off = [abs(each) for each in late]
            middle, high = statistics.median(off), statistics.quantiles(off, n=10)[8]
            said = f"asked a few ms: p50 {met(middle <= _ASKED_MS)}"
            bias = statistics.median(late)
            print(
                f"{f'{name}, window':>20} {len(off):>6} {middle:>6.1f} ms {high:>6.1f} ms {-bias:>+5.1f} ms   {said}",
                flush=True,
            )


async def _in_flight(limiter: Limiter, count: int) -> list[tuple[float, float]]:
    """What `usage` says to one who is about to come, and how long it then waits."""
    limiter.define(Limit("steady", in_flight=_SLOTS))
    pairs: list[tuple[float, float]] = []

    async def call() -> None:
        while len(pairs) < count + 2 * _WAITERS:
            eta_s = (await limiter.ausage("steady")).eta_s
            async with limiter.slot("steady", timeout_s=_WAIT_S) as slot:
                pairs.append((eta_s or 0.0, slot.waited_s))
                await asyncio.sleep(random.uniform(1 - _SPREAD, 1 + _SPREAD) * _CALL_S)

    await asyncio.gather(*(call() for _ in range(_SLOTS + _WAITERS)))
    # The first come before it knows how long calls take, and the last leave no line behind them.
    return pairs[2 * _WAITERS : count + 2 * _WAITERS]


async def _windows(limiter: Limiter, count: int) -> list[tuple[float, float]]:
    """What a refusal says, and how long it really takes after it."""
    limiter.define(Limit("windows", windows=(_WINDOW,)))
    pairs: list[tuple[float, float]] = []
    while len(pairs) < count:
        try:
            async with limiter.slot("windows", timeout_s=0):
                continue
        except Busy as busy:
            said = busy.eta_s or 0.0
        async with limiter.slot("windows", timeout_s=_WAIT_S) as slot:
            pairs.append((said, slot.waited_s))
    return pairs
