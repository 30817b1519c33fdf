"""How many slots a process asks for beside its callers, and how long it keeps them."""

from __future__ import annotations

import pytest

from forebay.limits.call import Call
from forebay.limits.in_hand import HOLD_S, Kind, SlotsInHand
from forebay.limits.line import Line
from forebay.stores.memory.limits import MemoryLimits

ONE = Kind("", {"calls": 1}, "")


@pytest.fixture
def call() -> Call:
    line = Line("api", MemoryLimits(), "a", "", lambda: None)
    return Call(line, 1, 0, 250, 0.0, {"calls": 1})


def wanted_in_a_row(slots: SlotsInHand, count: int, *, every_s: float = 0.001) -> list[int]:
    found = []
    for at in range(count):
        found.append(slots.wanted(ONE, at * every_s))
        slots.granted(at * every_s)
    return found


def test_requests_that_come_quickly_ask_for_twice_as_many_each_time() -> None:
    assert wanted_in_a_row(SlotsInHand(), 12) == [0, 0, 0, 0, 1, 3, 7, 15, 31, 31, 31, 31]


def test_requests_that_do_not_come_quickly_ask_for_none() -> None:
    assert wanted_in_a_row(SlotsInHand(), 9, every_s=HOLD_S) == [0] * 9


def test_a_pause_begins_it_again() -> None:
    slots = SlotsInHand()
    wanted_in_a_row(slots, 8)
    assert slots.wanted(ONE, 1.0) == 0


def test_other_callers_begin_it_again() -> None:
    slots = SlotsInHand()
    wanted_in_a_row(slots, 8)
    assert slots.wanted(Kind("tenant", {"calls": 1}, ""), 0.008) == 0


def test_only_the_same_key_units_and_label_take_one(call: Call) -> None:
    slots = SlotsInHand()
    wanted_in_a_row(slots, 8)
    slots.put(call)
    for other in (("tenant", {"calls": 1}, ""), ("", {"calls": 1, "pages": 2}, ""), ("", {"calls": 1}, "label")):
        assert slots.take(*other) is None
    assert slots.take(*ONE) is call
    assert slots.take(*ONE) is None


def test_what_nobody_uses_goes_back_and_less_is_asked_for(call: Call) -> None:
    slots = SlotsInHand()
    assert wanted_in_a_row(slots, 8)[-1] == 15
    slots.put(call)
    assert slots.until == 0.007 + HOLD_S
    assert slots.expired(0.007 + HOLD_S / 2) == []
    assert slots.expired(slots.until) == [call]
    assert len(slots) == 0
    slots.granted(0.02)
    assert slots.wanted(ONE, 0.021) == 7


def test_a_grant_to_others_keeps_them_no_longer(call: Call) -> None:
    slots = SlotsInHand()
    wanted_in_a_row(slots, 8)
    slots.put(call)
    until = slots.until
    slots.granted(until - 0.001)
    assert slots.until == until
