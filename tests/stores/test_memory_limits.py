"""The limits in memory keep the contract."""

from __future__ import annotations

from forebay.stores.memory.limits import MemoryLimits
from forebay.testing.limits import LimitStoreSuite
from forebay.testing.limits.hand_clock import HandClock


class TestMemoryLimits(LimitStoreSuite):
    def make_store(self, clock: HandClock) -> MemoryLimits:
        return MemoryLimits(clock=clock)
