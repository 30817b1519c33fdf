from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.errors import BadInput, NeverFits
from forebay.model.limit import Limit, Window
from forebay.rules.planning import CALLERS, IN_FLIGHT, plan
from tests.unit.builders import assert_helpful

ADOBE = Limit("adobe", in_flight=150, windows=(Window(190, 60),))
near = partial(pytest.approx, rel=1e-3)  # a start is never quite at once
EXACT = Limit("exact", in_flight=150, windows=(Window(190, 60),), start_within_s=0.01, transit_s=0)
RATE = "190 calls per 60 s"


def test_a_window_binds_calls_of_30_seconds_although_150_in_flight_would_allow_300() -> None:
    found = plan(ADOBE, 30)
    assert found.binds == RATE
    assert found.per_minute == near(190 / 60.3 * 60)
    assert {each.name: round(each.per_minute) for each in found.bounds} == {IN_FLIGHT: 300, RATE: 189}
    assert found.busy == near(94.5, abs=0.1)


def test_in_flight_binds_only_above_the_crossover() -> None:
    (crossover,) = plan(EXACT, 30).crossovers
    assert crossover.call_s == near(150 * 60 / 190)
    assert plan(EXACT, crossover.call_s - 0.01).binds == RATE
    assert plan(EXACT, crossover.call_s + 0.01).binds == IN_FLIGHT
    (enforced,) = plan(ADOBE, 30).crossovers
    assert enforced.call_s == near(150 * 60.3 / 190)


def test_the_binding_bound_is_used_wholly_and_the_others_in_part() -> None:
    used = {each.name: each.utilisation for each in plan(EXACT, 30).bounds}
    assert used == {IN_FLIGHT: near(0.633, abs=0.001), RATE: 1.0}


def test_raising_the_binding_bound_helps_until_the_next_one_binds() -> None:
    raised = plan(EXACT, 30).raised
    assert (raised.needed, raised.next_bound, raised.per_minute) == (301, IN_FLIGHT, 300)
    raised = plan(EXACT, 60).raised
    assert (raised.needed, raised.next_bound) == (190, RATE)
    assert plan(Limit("lone", in_flight=5), 10).raised.per_minute is None


def test_units_are_weighed_in_whole_calls() -> None:
    limit = Limit("pages", windows=(Window(100, 60, "pages"),), start_within_s=0.01, transit_s=0)
    found = plan(limit, 5, units={"pages": 15}, calls=7)
    assert found.per_minute == near(6)  # six calls of 15 fit into 100, a seventh does not
    assert found.total is not None
    assert found.total.least_s == near(65)


def test_so_many_calls_take_at_least_their_rounds_of_the_window_and_one_call() -> None:
    total = plan(ADOBE, 5, calls=10_000).total
    assert total is not None
    assert total.bound == RATE
    assert total.least_s == near(52 * 60.3 + 5)
    total = plan(ADOBE, 90, calls=10_000).total
    assert total is not None
    assert total.bound == IN_FLIGHT
    assert total.least_s == near(6000)
    total = plan(ADOBE, 5, calls=1).total
    assert total is not None
    assert total.least_s == 5


def test_a_fleet_smaller_than_the_limit_binds_itself() -> None:
    found = plan(EXACT, 60, callers=100)
    assert (found.binds, found.per_minute, found.raised.needed) == (CALLERS, 100, 150)


@pytest.mark.parametrize("units", [{"tokens": 5}, {"calls": 200}], ids=["nothing counts them", "more than fits"])
def test_what_never_fits_is_refused(units: dict[str, int]) -> None:
    with pytest.raises(NeverFits) as caught:
        plan(ADOBE, 30, units=units)
    assert_helpful(caught.value)


def test_what_cannot_be_planned_is_refused() -> None:
    pages = Limit("pages", windows=(Window(100, 60, "pages"),))
    for limit, call_s, more in (
        (pages, 5.0, {}),
        (ADOBE, -1.0, {}),
        (ADOBE, float("nan"), {}),
        (ADOBE, 5.0, {"calls": 0}),
        (ADOBE, 5.0, {"callers": 0}),
        (Limit("paused", in_flight=0), 5.0, {}),
    ):
        with pytest.raises(BadInput) as caught:
            plan(limit, call_s, **more)  # type: ignore[arg-type]
        assert_helpful(caught.value)


@given(
    in_flight=st.integers(1, 1000),
    n=st.integers(1, 1000),
    per_s=st.floats(0.1, 10_000),
    call_s=st.floats(0.01, 1000),
    calls=st.integers(1, 100_000),
)
def test_no_bound_is_exceeded_and_one_is_used_wholly(
    in_flight: int, n: int, per_s: float, call_s: float, calls: int
) -> None:
    limit = Limit("any", in_flight=in_flight, windows=(Window(n, per_s),))
    found = plan(limit, call_s, calls=calls)
    assert max(each.utilisation for each in found.bounds) == 1
    assert all(0 < each.utilisation <= 1 for each in found.bounds)
    assert found.busy <= in_flight * (1 + 1e-9)
    assert found.total is not None
    # The bound of a run is never above the pace that is kept without end, but for the first window's worth of calls.
    assert found.total.least_s >= call_s
    assert found.total.least_s <= calls / (found.per_minute / 60) + call_s + 1e-6
