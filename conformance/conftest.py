"""One simulator for all, as it was at its start for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.testing import Simulated, simulator

DOCUMENT = Path(__file__).parents[1] / "examples" / "documents" / "text.pdf"


@pytest.fixture(scope="session")
def running() -> Iterator[Simulated]:
    with simulator() as found:
        yield found


@pytest.fixture
def sim(running: Simulated) -> Simulated:
    running.reset()
    return running


@pytest.fixture(scope="session")
def document() -> bytes:
    return DOCUMENT.read_bytes()
