"""A limit as the first build (commit 93d555d) keeps it, and processes that know what its processes knew."""

from __future__ import annotations

from pathlib import Path

from forebay.stores.memory.limits import MemoryLimits
from forebay.testing.limits.case import define
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import Process

_RECORD = Path(__file__).with_name("limit_of_first_build.json")


def first_build_record() -> str:
    """Return what the first build keeps after the steps of `first_build_processes`, as JSON."""
    return _RECORD.read_text()


def first_build_processes(clock: HandClock) -> tuple[Process, Process]:
    """Return a process that holds a call and one that waits; a third has died."""
    memory = MemoryLimits(clock=clock)
    define(memory, 2, [(9, 60.0)])
    holder, waiter, dead = (Process(memory, clock, sid) for sid in ("holder", "waiter", "dead"))
    dead.wants(1)
    clock.move(1)
    holder.wants(1, key="k")
    clock.move(16_000)
    holder.beats()
    waiter.wants(3, key="k")
    waiter.wants(1, front=True)
    return holder, waiter
