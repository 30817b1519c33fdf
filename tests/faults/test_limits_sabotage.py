"""Limiters with one promise broken, which the judge of `chaos.limits` must convict."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.limit_plays import assert_convicted

pytestmark = pytest.mark.slow


@pytest.mark.timeout(90)
@pytest.mark.parametrize(
    ("sabotage", "where", "promise", "seconds"),
    [
        ("Apart", ("lowered", "sqlite"), "L1", 1.0),
        ("Hasty", ("freeze", "sqlite"), "L1", 1.0),
        ("Deaf", ("refused", "memory"), "L3", 2.5),
        ("Narrow", ("late", "memory"), "L2", 5.0),
        ("Hoarding", ("kill", "redis"), "L4", 3.5),
        ("Forgetful", ("restart-empty", "redis"), "L2", 3.0),
        ("Forgetful", ("crashed", "postgres"), "L2", 5.0),
        ("Forgetful", ("failed-over-behind", "sentinel"), "L2", 18.0),
        ("Blind", ("evicted", "redis"), "L2", 5.0),
        ("Deaf", ("in-hand", "redis"), "L3", 3.0),
        ("Hasty", ("weighted-in-flight", "redis"), "L1", 2.0),
        ("Prompt", ("late-start-killed", "redis"), "L1", 8.0),
        ("Prompt", ("late-start-killed", "sqlite"), "L1", 8.0),
        ("Timeless", ("refused-late", "memory"), "L3", 5.5),
        ("Unheard", ("refused-late", "memory"), "L3", 5.5),
        ("FailOpen", ("slow-store", "redis"), "L1", 9.0),
    ],
)
def test_a_limiter_that_breaks_one_promise_is_convicted(
    sabotage: str, where: tuple[str, str], promise: str, seconds: float, tmp_path: Path
) -> None:
    assert_convicted(sabotage, *where, promise, seconds, tmp_path)
