"""Tells the time by a clock that nobody sets and that goes on while the machine sleeps, and how much a restart took."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from forebay.clock import steady

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Moment(NamedTuple):
    """An instant as the machine calls it: milliseconds since which boot, and by the wall clock.

    `boot` is empty where the system does not say.
    """

    boot: str
    ticks: int
    wall: int


def moment() -> Moment:
    return Moment(_boot(), int(steady() * 1000), int(time.time() * 1000))


@cache
def _boot() -> str:
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def passed(then: Moment, now: Moment) -> int:
    """Milliseconds from one moment to another; across a restart by the wall clock, and none if that went back."""
    # Where nobody knows the boot, a restart that was not noticed makes this too short, never too long.
    if now.boot == then.boot and (now.boot or now.ticks >= then.ticks):
        return now.ticks - then.ticks
    return max(0, now.wall - then.wall)
