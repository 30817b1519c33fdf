"""What a forked process does: its callers take a slot, make a call that the judge hears of, and begin again."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import sys
import threading
import time
from functools import partial
from pathlib import Path

from benchmarks.limiting.gates import Agate, Gate
from benchmarks.limits_fleet.judge import BEGAN, ENDED, note
from benchmarks.limits_fleet.plan import Plan
from benchmarks.limits_fleet.sides import Side
from benchmarks.limits_fleet.tally import Tally

READY = b"r"
ORDERS = struct.Struct("<dd")
_STACK_BYTES = 256 * 1024
_PAUSE_S = 0.05


class Member:
    def __init__(self, number: int, plan: Plan, side: Side, judge: int) -> None:
        self._number = number
        self._plan = plan
        self._side = side
        self._judge = judge
        self._go = threading.Event()
        self._tally = Tally()

    def run(self, control: socket.socket, report: Path) -> None:
        """Call until the measurement is over, and write down what was seen; the caller of this ends the process."""
        threading.stack_size(_STACK_BYTES)
        stands = threading.Event()
        threading.Thread(target=self._open, args=(stands,), daemon=True).start()
        stands.wait()
        control.sendall(READY)
        orders = control.recv(ORDERS.size, socket.MSG_WAITALL)
        if len(orders) < ORDERS.size:
            return  # the leader has gone
        self._tally.counts_from, self._tally.counts_until = ORDERS.unpack(orders)
        time.sleep(self._plan.start_spread_s * self._number / self._plan.processes)
        self._go.set()
        time.sleep(max(0.0, self._tally.counts_until - time.monotonic()))
        # Whole before it has its name: the leader looks for that.
        report.with_suffix(".part").write_text(json.dumps(self._tally.said()), "ascii")
        report.with_suffix(".part").rename(report)
        control.recv(1)  # until the leader ends it, others must not see its session end

    def _open(self, stands: threading.Event) -> None:
        """On a thread of its own, as a program's callers are."""
        if self._side.aopens is not None:
            asyncio.run(self._open_loop(stands))
            return
        assert self._side.opens is not None
        with self._side.opens(self._number, self._tally) as gate:
            callers = [
                threading.Thread(target=self._call_again_and_again, args=(gate,), daemon=True)
                for _ in range(self._plan.callers)
            ]
            for caller in callers:
                caller.start()
            stands.set()
            for caller in callers:
                caller.join()

    async def _open_loop(self, stands: threading.Event) -> None:
        assert self._side.aopens is not None
        async with self._side.aopens(self._number, self._tally) as gate:
            stands.set()
            await asyncio.to_thread(self._go.wait)
            await asyncio.gather(*(self._acall_again_and_again(gate) for _ in range(self._plan.callers)))

    def _call_again_and_again(self, gate: Gate) -> None:
        self._go.wait()
        while True:
            try:
                gate(partial(self._call, time.monotonic()))
            except Exception as error:  # noqa: BLE001 - each kind is counted and told
                self._failed(error)
                time.sleep(_PAUSE_S)

    def _call(self, asked_at: float) -> None:
        self._tally.waited(time.monotonic() - asked_at)
        note(self._judge, BEGAN)
        if self._plan.call_s:
            time.sleep(self._plan.call_s)
        note(self._judge, ENDED)

    async def _acall_again_and_again(self, gate: Agate) -> None:
        while True:
            try:
                await gate(partial(self._acall, time.monotonic()))
            except Exception as error:  # noqa: BLE001 - same
                self._failed(error)
                await asyncio.sleep(_PAUSE_S)

    async def _acall(self, asked_at: float) -> None:
        self._tally.waited(time.monotonic() - asked_at)
        note(self._judge, BEGAN)
        await asyncio.sleep(self._plan.call_s)
        note(self._judge, ENDED)

    def _failed(self, error: Exception) -> None:
        self._tally.count(f"error {type(error).__name__}")
        if os.environ.get("FOREBAY_BENCH_ERRORS"):
            print(f"process {self._number}: {error!r}", file=sys.stderr)
