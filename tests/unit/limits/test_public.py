from __future__ import annotations

import subprocess
import sys

import pytest

import forebay
import forebay.limits
from forebay.model.limit import Limit, Window

NAMES = [
    "Busy",
    "FollowedFile",
    "Limit",
    "Limiter",
    "NeverFits",
    "PlaceHeld",
    "Slot",
    "Usage",
    "Wait",
    "Window",
    "aacquire_slot",
    "acquire_slot",
    "get_current_in_flight",
    "get_current_usage",
    "release_slot",
    "use",
]


def test_the_door_of_the_limiter_has_these_names() -> None:
    assert forebay.limits.__all__ == NAMES
    assert all(getattr(forebay.limits, name) for name in NAMES)
    assert set(NAMES) <= set(dir(forebay.limits))
    with pytest.raises(AttributeError):
        forebay.limits.missing  # noqa: B018


def test_limits_are_found_at_the_first_door_too() -> None:
    assert (forebay.Limit, forebay.Window) == (Limit, Window)


def test_importing_the_limiter_loads_nothing_heavy() -> None:
    code = "import sys, forebay.limits; from forebay import Limit; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"asyncio", "apsw", "obstore", "pydantic", "redis", "tomllib", "forebay.limits.limiter"} & set(loaded)
