from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.errors import BadInput
from forebay.rules.backoff import COOLDOWN_STEPS_S, cooldown_s, retry_delay_s

JITTERS = st.floats(0, 1)
COUNTS = st.integers(0, 1_000_000_000)


def test_retries_wait_twice_as_long_each_time_up_to_five_minutes() -> None:
    assert [retry_delay_s(count, 1.0) for count in range(9)] == [2, 4, 8, 16, 32, 64, 128, 256, 300]


def test_jitter_takes_at_most_half_of_a_retry_delay_away() -> None:
    assert [retry_delay_s(1, jitter) for jitter in (0.0, 0.5, 1.0)] == [2, 3, 4]


@given(COUNTS, JITTERS)
def test_a_retry_delay_stays_between_one_second_and_five_minutes(count: int, jitter: float) -> None:
    assert 1 <= retry_delay_s(count, jitter) <= 300


@given(COUNTS, JITTERS, st.floats(0, 1e6), st.floats(1, 1000), st.floats(0, 1e6))
def test_a_retry_delay_never_shrinks_with_the_count_nor_passes_its_ceiling(
    count: int, jitter: float, base_s: float, factor: float, max_s: float
) -> None:
    now, later = (
        retry_delay_s(each, jitter, base_s=base_s, factor=factor, max_s=max_s)
        for each in (count, min(count + 1, 1_000_000_000))
    )
    assert 0 <= now <= later <= max_s


def test_a_billion_retries_wait_for_the_ceiling_instead_of_overflowing() -> None:
    assert retry_delay_s(1_000_000_000, 1.0) == 300


def test_a_base_of_zero_means_no_delay_however_many_retries() -> None:
    assert [retry_delay_s(count, 1.0, base_s=0) for count in (0, 1_000_000_000)] == [0, 0]


def test_cool_downs_climb_their_steps_and_stay_on_the_last() -> None:
    assert [cooldown_s(level, 0.0) for level in (0, 1, 2, 3, 4, 5, 1_000_000_000)] == [2, 4, 8, 16, 30, 30, 30]


@given(COUNTS, JITTERS)
def test_jitter_lengthens_a_cool_down_by_a_fifth_at_most(level: int, jitter: float) -> None:
    step_s = COOLDOWN_STEPS_S[min(level, 4)]
    assert step_s <= cooldown_s(level, jitter) <= step_s * 1.2


def test_the_steps_of_a_cool_down_can_be_chosen() -> None:
    assert [cooldown_s(level, 0.0, steps=[5]) for level in (0, 7)] == [5, 5]


@pytest.mark.parametrize("jitter", [-0.1, 1.1, math.nan, math.inf, -math.inf])
def test_jitter_outside_zero_to_one_is_refused(jitter: float) -> None:
    with pytest.raises(BadInput, match="jitter"):
        retry_delay_s(0, jitter)
    with pytest.raises(BadInput, match="jitter"):
        cooldown_s(0, jitter)


@pytest.mark.parametrize("count", [-1, 10**30, math.nan, 1.5, True])
def test_a_count_that_counts_nothing_is_refused(count: int) -> None:
    with pytest.raises(BadInput, match="retry_count"):
        retry_delay_s(count, 0.5)
    with pytest.raises(BadInput, match="level"):
        cooldown_s(count, 0.5)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf])
def test_negative_and_endless_durations_are_refused(value: float) -> None:
    with pytest.raises(BadInput, match="base_s"):
        retry_delay_s(0, 0.5, base_s=value)
    with pytest.raises(BadInput, match="max_s"):
        retry_delay_s(0, 0.5, max_s=value)
    with pytest.raises(BadInput, match="step"):
        cooldown_s(0, 0.5, steps=[value])


@pytest.mark.parametrize("factor", [-2, 0, 0.99, 1001, math.nan, math.inf])
def test_a_factor_that_shrinks_or_explodes_is_refused(factor: float) -> None:
    with pytest.raises(BadInput, match="factor"):
        retry_delay_s(0, 0.5, factor=factor)


def test_a_cool_down_without_steps_is_refused() -> None:
    with pytest.raises(BadInput, match="no steps"):
        cooldown_s(0, 0.5, steps=[])
