"""Windows count a grant for as long as its call may start late; a rule that does not is found out."""

from __future__ import annotations

import pytest

from forebay.rules import limit_state
from forebay.stores.memory.limits import MemoryLimits
from forebay.testing.limits.freshening import most_that_arrive_in
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import Process


def most() -> int:
    clock = HandClock()
    store = MemoryLimits(clock=clock)
    return most_that_arrive_in(store, clock, lambda sid: Process(store, clock, sid))[0]


def test_no_more_calls_arrive_than_a_window_allows() -> None:
    assert most() <= 5


def test_late_starts_that_windows_do_not_count_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_state, "counted_at", lambda _record, now: now)
    assert most() > 5
