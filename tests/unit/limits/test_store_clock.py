"""A grant is as old as the best answers allow, never younger than it is, whatever the way to the store took."""

from __future__ import annotations

import math
import random

import pytest

from forebay.limits.store_clock import DRIFT, WINDOW_S, StoreClock

ERA = {"generation": 1, "offset": 0}


def clock_of(*answers: tuple[int, float, float]) -> StoreClock:
    clock = StoreClock()
    for instant, sent_at, received_at in answers:
        clock.note(instant, sent_at, received_at, **ERA)
    return clock


def test_nothing_is_known_before_the_first_answer() -> None:
    assert StoreClock().age_s(0, 5.0) == math.inf


def test_one_answer_makes_a_grant_as_old_as_its_request() -> None:
    assert clock_of((7000, 100.0, 101.0)).age_s(7000, 101.0) == pytest.approx(1.0)


def test_a_slow_way_to_the_store_ages_nothing_once_a_quick_answer_is_known() -> None:
    # The store's clock is 93 s behind ours. The second request was 3 s on its way there.
    clock = clock_of((7000, 100.0, 100.01), (10_000, 100.0, 103.0))
    assert clock.age_s(10_000, 103.0) == pytest.approx(0.0, abs=2e-3)
    assert clock.age_s(10_000, 104.0) == pytest.approx(1.0, abs=3e-3)


def test_a_slow_way_back_counts() -> None:
    clock = clock_of((7000, 100.0, 100.01), (7010, 100.01, 104.0))
    assert clock.age_s(7010, 104.0) == pytest.approx(3.99, abs=3e-3)


def test_an_answer_counts_for_ten_seconds() -> None:
    quick, slow = (7000, 100.0, 100.0), (7000 + int(WINDOW_S * 1000) + 2000, 109.0, 112.5)
    clock = clock_of(quick, slow)
    assert clock.age_s(slow[0], 112.5) == pytest.approx(3.5, abs=0.01)


def test_the_only_answer_counts_on() -> None:
    assert clock_of((7000, 100.0, 100.0)).age_s(7000, 200.0) == pytest.approx(100.0, abs=0.1)


@pytest.mark.parametrize("era", [{"generation": 2, "offset": 0}, {"generation": 1, "offset": 5000}])
def test_answers_of_another_generation_or_offset_say_nothing(era: dict[str, int]) -> None:
    clock = clock_of((7000, 100.0, 100.0))
    clock.note(10_000, 100.0, 103.0, **era)
    assert clock.age_s(10_000, 103.0) == pytest.approx(3.0, abs=3e-3)


@pytest.mark.parametrize("jump_s", [1.5, -1.5])
def test_a_clock_that_jumped_by_less_than_the_store_notices_is_learned_again(jump_s: float) -> None:
    clock = clock_of((7000, 100.0, 100.01))
    granted = 8000 + int(jump_s * 1000)
    clock.note(granted, 101.0, 101.01, **ERA)
    assert 0.0 <= clock.age_s(granted, 101.01) <= 0.02


def test_no_grant_is_ever_taken_for_younger_than_it_is() -> None:
    chance = random.Random(7)
    for _ in range(50):
        clock, now, rate = StoreClock(), 1000.0, 1 + chance.uniform(-DRIFT, DRIFT) / 2
        grants: list[tuple[int, float]] = []
        for _ in range(200):
            sent_at = now
            at = sent_at + chance.choice([0.0, 0.001, 0.5, 3.0])
            now = at + chance.choice([0.0, 0.001, 0.5, 3.0])
            instant = int(at * rate * 1000)
            clock.note(instant, sent_at, now, **ERA)
            grants = [*grants[-5:], (instant, at)]
            # An instant is rounded down to a millisecond, for which the windows have one to spare.
            assert all(clock.age_s(each, now) >= now - granted_at - 0.001 for each, granted_at in grants)
            now += chance.choice([0.0, 0.2, 5.0])
