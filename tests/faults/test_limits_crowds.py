"""Hundreds of sessions that come, go or die at once, in the short form of `./dev chaos limits`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.limit_plays import assert_convicted, assert_sound

pytestmark = pytest.mark.slow


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("name", "store"),
    [
        ("mass-kill", "redis"),
        ("mass-kill", "sqlite"),
        ("mass-kill-forked", "redis"),
        ("comers", "redis"),
        ("comers", "sqlite"),
        ("mass-kill", "postgres"),
        ("comers", "postgres"),
    ],
)
def test_a_crowd_leaves_nothing_behind(name: str, store: str, tmp_path: Path) -> None:
    assert_sound(name, store, tmp_path)


@pytest.mark.timeout(90)
@pytest.mark.parametrize(
    ("sabotage", "where", "promise", "seconds"),
    [
        ("LongLived", ("mass-kill", "redis"), "L4", 15.0),
        ("Thorough", ("mass-kill", "redis"), "cost:", 14.0),
        ("Thorough", ("mass-kill", "sqlite"), "cost:", 14.0),
        ("Lingering", ("comers", "redis"), "L4", 4.0),
        ("Lingering", ("comers", "sqlite"), "L4", 4.0),
    ],
)
def test_a_limiter_that_breaks_one_promise_is_convicted(
    sabotage: str, where: tuple[str, str], promise: str, seconds: float, tmp_path: Path
) -> None:
    assert_convicted(sabotage, *where, promise, seconds, tmp_path)
