"""One simulator for all tests of a worker, as it was at its start for each of them."""

from __future__ import annotations

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
    running.reset()
    return running


@pytest.fixture
def clients(sim: Simulated) -> Iterator[Clients]:
    with Clients(sim.base) as found:
        yield found
