"""How many tasks of a limited kind wait in hand."""

from forebay.engine.ahead import Ahead


def test_a_slot_that_found_nothing_asks_for_one_more() -> None:
    ahead = Ahead(10)
    assert ahead.count(0.0) == 0, "nobody knows yet whether slots come at all"
    ahead.granted(0.0, idle=True)
    assert ahead.count(0.0) == 0, "the first slot says nothing of how often they come"
    ahead.granted(0.5, idle=True)
    assert ahead.count(0.5) == 1


def test_long_after_the_last_slot_none_waits_in_hand() -> None:
    ahead = Ahead(10)
    for turn in range(4):
        ahead.granted(turn * 0.01, idle=True)
    assert (ahead.count(0.5), ahead.count(30.0)) == (3, 0)
    ahead.granted(30.0, idle=True)
    assert ahead.count(30.1) == 3, "what was learned counts again once slots come again"


def test_the_last_in_hand_is_followed_by_more_only_where_slots_come_quickly() -> None:
    quick, slow = Ahead(10), Ahead(10)
    for turn in range(5):
        quick.granted(turn * 0.01, idle=False, last=True)
        slow.granted(turn * 0.1, idle=False, last=True)
    assert (quick.count(0.05), slow.count(0.5)) == (4, 0)


def test_no_more_wait_than_can_run_and_one_less_after_a_long_wait() -> None:
    ahead = Ahead(3)
    for turn in range(20):
        ahead.granted(turn * 0.01, idle=True)
    assert ahead.count(0.2) == 3
    ahead.waited(0.05)
    assert ahead.count(0.2) == 3
    ahead.waited(0.2)
    assert ahead.count(0.2) == 2


def test_after_a_stall_none_waits_until_slots_come_again() -> None:
    ahead = Ahead(3)
    ahead.stalled()
    assert ahead.count(0.0) == 0
    ahead.granted(10.0, idle=True)
    ahead.granted(10.1, idle=True)
    assert ahead.count(10.1) == 1
