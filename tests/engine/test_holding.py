"""How many wait for a place with their slots in hand."""

from forebay.engine.holding import Holding


def after(holding: Holding, *waits_s: float) -> int:
    for wait_s in waits_s:
        holding.used(wait_s)
    return holding.allowed(0.0)


def test_one_may_wait_until_more_is_known() -> None:
    assert Holding(10).allowed(0.0) == 1


def test_where_places_come_free_at_once_ever_more_may_wait_for_them_but_no_more_than_can_run() -> None:
    holding = Holding(3)
    assert after(holding, 0.002) == 2
    assert after(holding, 0.002, 0.002, 0.002) == 3


def test_who_waited_long_for_a_place_asks_for_one_less() -> None:
    holding = Holding(10)
    assert after(holding, 0.002, 0.002, 0.002) == 4
    assert after(holding, 0.05) == 3
    assert after(holding, *[0.05] * 10) == 1


def test_where_slots_are_waited_for_they_are_left_to_others() -> None:
    holding = Holding(10)
    assert after(holding, *[0.002] * 7) == 8
    holding.granted(0.001)
    assert holding.allowed(0.0) == 8
    for _ in range(3):
        holding.granted(0.05)
    assert holding.allowed(0.0) == 1


def test_in_vain_is_tried_ever_more_rarely_until_a_place_was_found() -> None:
    holding = Holding(10)
    holding.used(0.002)
    holding.in_vain(0.0)
    assert (holding.allowed(0.4), holding.allowed(0.5)) == (0, 1)
    holding.in_vain(1.0)
    assert (holding.allowed(1.9), holding.allowed(2.0)) == (0, 1)
    holding.used(0.2)
    holding.in_vain(3.0)
    assert holding.allowed(3.5) == 1
