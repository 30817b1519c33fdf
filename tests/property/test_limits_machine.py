"""Random processes find nothing wrong with a limit store."""

from __future__ import annotations

import pytest

from forebay.stores.memory.limits import MemoryLimits
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.machine import limit_machine
from tests.property.machines import FUZZ, run

# A failure is made small before it is told, which takes minutes; a run that passes takes seconds.
pytestmark = pytest.mark.timeout(0 if FUZZ else 600)


def memory_limits(clock: HandClock) -> MemoryLimits:
    return MemoryLimits(clock=clock)


def test_the_limits_in_memory_do_what_the_judge_allows() -> None:
    run(limit_machine(memory_limits), examples=60)
