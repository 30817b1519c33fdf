"""One simulator for all tests of a worker, as it was at its start for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.testing import Simulated, simulator
from tests.autotag.ground import Ground


@pytest.fixture(scope="session")
def running() -> Iterator[Simulated]:
    with simulator() as found:
        yield found


@pytest.fixture
def sim(running: Simulated) -> Simulated:
    running.reset()
    running.change(adobe={"retry_after_s": 0.2})
    return running


@pytest.fixture
def here(sim: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    """An application with Adobe's processor, which cuts documents into chunks of two pages."""
    for name, value in {"URL": sim.base, "CLIENT_ID": "client", "CLIENT_SECRET": "canary-secret"}.items():
        monkeypatch.setenv(f"FOREBAY_ADOBE_{name}", value)
    monkeypatch.setenv("FOREBAY_DRAIN_GRACE_S", "0.2")
    with Ground(tmp_path, sim) as found:
        yield found
