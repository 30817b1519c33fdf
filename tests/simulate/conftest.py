"""One simulator for all tests of a worker, as it was at its start for each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from forebay.testing import Simulated, simulator
from tests.simulate.ground import Clients


@pytest.fixture(scope="session")
def running() -> Iterator[Simulated]:
    with simulator() as found:
        yield found


@pytest.fixture
def sim(running: Simulated) -> Simulated:
    ends_at = time.monotonic() + 20
    while running.open():  # a job that the test before did not wait for
        assert time.monotonic() < ends_at
        time.sleep(0.02)
    running.reset()
    return running


@pytest.fixture
def clients(sim: Simulated) -> Iterator[Clients]:
    with Clients(sim.base) as found:
        yield found
