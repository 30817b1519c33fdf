from __future__ import annotations

import time

import pytest

from forebay.clock import ManualClock, SystemClock, iso


def test_the_system_clock_tells_seconds_since_the_epoch() -> None:
    before = time.time()
    assert before <= SystemClock().now() <= time.time()


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(100.0)
    assert (clock.now(), clock.now()) == (100.0, 100.0)
    clock.advance(2.5)
    assert clock.now() == 102.5


def test_a_manual_clock_may_jump_back_as_real_ones_do() -> None:
    clock = ManualClock(100.0)
    clock.advance(-60)
    assert clock.now() == 40.0


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (1_769_515_500.0, "2026-01-27T12:05:00.000Z"),
        (1_769_515_500.0625, "2026-01-27T12:05:00.062Z"),
        (253_402_300_799.0, "9999-12-31T23:59:59.000Z"),
    ],
)
def test_an_instant_reads_as_utc_with_milliseconds(instant: float, text: str) -> None:
    assert iso(instant) == text


def test_the_machines_time_zone_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        monkeypatch.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        assert iso(0.0) == "1970-01-01T00:00:00.000Z"
    finally:
        monkeypatch.undo()
        time.tzset()
