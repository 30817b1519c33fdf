"""Exceptions out of nowhere, as a signal's handler raises them, take no slot with them."""

from __future__ import annotations

import gc
import random
import signal
import time
from pathlib import Path

import pytest

from forebay.limits import Limit, Limiter
from tests.limits.ground import until


class Now(Exception):
    """Comes between any two lines of the main thread."""


@pytest.mark.slow
def test_a_signal_that_raises_while_slots_are_taken_and_given_back_leaks_none(tmp_path: Path) -> None:
    def strike(*_: object) -> None:
        raise Now

    before = signal.signal(signal.SIGALRM, strike)
    struck = 0
    with Limiter(f"sqlite:////{tmp_path}/limits.db") as limiter:
        limiter.define(Limit("two", in_flight=2))
        with limiter.slot("two"):
            pass  # what is opened at first use is open
        ends_at = time.monotonic() + 2
        try:
            while time.monotonic() < ends_at:
                try:
                    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00005, 0.002))
                    with limiter.slot("two", timeout_s=0.5):
                        pass
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Now:
                    struck += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert struck > 100
        gc.collect()
        until(lambda: limiter.usage("two").in_flight == 0)
        with limiter.slot("two", timeout_s=2), limiter.slot("two", timeout_s=2).take():
            assert limiter.usage("two").in_flight == 2
