"""Gives every test the real servers, and says how far property tests go.

`test` runs them the same way each time, so that a change is to blame for a change. With FOREBAY_FUZZ set they
are random and long; a number above 1 is how many examples each machine runs.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.servers.fixtures"]

_CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]
_ROOT = Path(__file__).resolve().parents[1]
_FIRST_BUILD = "93d555d"
_FUZZ = int(os.environ.get("FOREBAY_FUZZ") or 0)

settings.register_profile(
    "test", deadline=None, derandomize=True, print_blob=True, stateful_step_count=40, suppress_health_check=_CALM
)
settings.register_profile(
    "fuzz",
    deadline=None,
    print_blob=True,
    max_examples=_FUZZ if _FUZZ > 1 else 300,
    stateful_step_count=60,
    suppress_health_check=_CALM,
)
settings.load_profile("fuzz" if _FUZZ else "test")


def pytest_xdist_auto_num_workers() -> int:
    """Return two workers for each of few cores: many tests wait for servers and other processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(cores, min(2 * cores, 8))


@pytest.fixture(scope="session")
def old_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the older version, from the history of this repository: a clone that lacks it fails here."""
    folder = tmp_path_factory.mktemp("old")
    packed = folder / "old.tar"
    subprocess.run(["git", "-C", _ROOT, "archive", "-o", packed, _FIRST_BUILD, "src"], check=True, timeout=150)
    subprocess.run(["tar", "-xf", packed, "-C", folder], check=True, timeout=150)
    return folder / "src"
