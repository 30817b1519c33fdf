"""Gives every test the real servers, and says how far property tests go.

`test` runs them the same way each time, so that a change is to blame for a change. With FOREBAY_FUZZ set they
are random and long; a number above 1 is how many examples each machine runs.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.servers.fixtures"]

_CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]
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
