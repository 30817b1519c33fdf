from __future__ import annotations

from typing import Any

import pytest

from forebay.errors import BadInput, BadName
from forebay.model.limit import FIELDS, MAX_N, MAX_PER_S, MAX_WINDOWS, Limit, Window, check_units

NAN = float("nan")


def test_a_window_is_a_count_in_seconds_of_calls_unless_it_says_otherwise() -> None:
    assert str(Window(190, 60)) == "190 calls per 60 s"
    assert str(Window(5, 0.5, "pages")) == "5 pages per 0.5 s"
    assert isinstance(Window(1, 60).per_s, float)


@pytest.mark.parametrize("n", [-1, MAX_N + 1, 1.5, True, "5", None])
def test_a_window_of_no_count_is_refused(n: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(BadInput, match="n is"):
        Window(n, 60)


@pytest.mark.parametrize("per_s", [0, 0.0009, -1, MAX_PER_S + 1, NAN, True, "60", None])
def test_a_window_of_no_time_is_refused(per_s: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(BadInput, match="per_s"):
        Window(5, per_s)


def test_the_edges_of_a_window_are_allowed() -> None:
    assert Window(0, 0.001).n == 0
    assert Window(MAX_N, MAX_PER_S).per_s == MAX_PER_S


def test_a_unit_has_a_name() -> None:
    with pytest.raises(BadName):
        Window(5, 60, "Pages per day")


def test_a_limit_that_bounds_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="'api' bounds nothing"):
        Limit("api")
    with pytest.raises(BadInput):
        Limit("api", windows=())
    assert Limit("api", in_flight=0).in_flight == 0


@pytest.mark.parametrize("in_flight", [-1, MAX_N + 1, 2.0, True, "5"])
def test_calls_at_once_are_a_whole_number(in_flight: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(BadInput, match="in_flight"):
        Limit("api", in_flight=in_flight)


def test_windows_may_be_one_or_any_series_of_them() -> None:
    one = Window(5, 60)
    for given in (one, [one], (one,), iter([one])):
        assert Limit("api", windows=given).windows == (one,)  # type: ignore[arg-type]


@pytest.mark.parametrize("windows", [5, "ab", b"ab", {"n": 5}, [5], [Window(1, 1), None], None])
def test_windows_that_are_none_are_refused(windows: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(BadInput, match="windows"):
        Limit("api", in_flight=1, windows=windows)


def test_two_windows_of_one_unit_and_length_are_refused_and_so_are_too_many() -> None:
    with pytest.raises(BadInput):
        Limit("api", windows=(Window(1, 60), Window(2, 60.0)))
    assert len(Limit("api", windows=(Window(1, 60), Window(2, 60, "pages"))).windows) == 2
    many = tuple(Window(1, 1 + at) for at in range(MAX_WINDOWS + 1))
    assert len(Limit("api", windows=many[:-1]).windows) == MAX_WINDOWS
    with pytest.raises(BadInput):
        Limit("api", windows=many)


@pytest.mark.parametrize("field", ["call_timeout_s", "lease_s", "max_cooldown_s"])
@pytest.mark.parametrize("value", [0, 0.0009, -1.0, 86_400.5, NAN, "5", None, True])
def test_durations_are_seconds_of_a_day_at_most_and_more_than_nothing(field: str, value: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(BadInput, match=field):
        Limit("api", in_flight=1, **{field: value})


@pytest.mark.parametrize(("field", "least"), [("start_within_s", 0.01), ("transit_s", 0)])
def test_a_call_may_arrive_at_once_but_needs_a_moment_to_start(field: str, least: float) -> None:
    assert getattr(Limit("api", in_flight=1, **{field: least}), field) == least  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=field):
        Limit("api", in_flight=1, **{field: least - 0.001})  # type: ignore[arg-type]


def test_a_lease_bears_two_lost_heartbeats() -> None:
    assert Limit("api", in_flight=1, lease_s=12, heartbeat_s=4).lease_s == 12.0
    with pytest.raises(BadInput, match=r"lease of 11\.9 s but a heartbeat of 4 s"):
        Limit("api", in_flight=1, lease_s=11.9, heartbeat_s=4)


@pytest.mark.parametrize("lease_s", [0.001, 0.3, 5, 11.9, 12, 15, 600])
def test_a_heartbeat_follows_from_its_lease(lease_s: float) -> None:
    heartbeat_s = Limit("api", in_flight=1, lease_s=lease_s).heartbeat_s
    assert heartbeat_s == min(4.0, lease_s / 3)
    assert Limit("api", in_flight=1, lease_s=lease_s, heartbeat_s=0).heartbeat_s == heartbeat_s


@pytest.mark.parametrize("heartbeat_s", [-1.0, NAN, "5", None, True, 86_400.5])
def test_a_heartbeat_is_seconds(heartbeat_s: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(BadInput, match="heartbeat_s"):
        Limit("api", in_flight=1, heartbeat_s=heartbeat_s)


@pytest.mark.parametrize("processes", [0, -1, 1.5, "3", True, 1_000_000])
def test_processes_that_share_are_a_whole_number(processes: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(BadInput, match="share_processes"):
        Limit("api", in_flight=1, share_processes=processes)


def test_steps_of_a_rest_may_be_one_or_many() -> None:
    assert Limit("api", in_flight=1, cooldown_s=5).cooldown_s == (5.0,)  # type: ignore[arg-type]
    assert Limit("api", in_flight=1, cooldown_s=[1, 2]).cooldown_s == (1.0, 2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", [(), "12", b"12", None, [0], [NAN], ["2"]])
def test_steps_that_are_none_are_refused(steps: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(BadInput, match="cooldown_s"):
        Limit("api", in_flight=1, cooldown_s=steps)


@pytest.mark.parametrize(
    ("field", "value"), [("when_store_down", "hope"), ("on_disconnect", ""), ("breaker_after", -1)]
)
def test_choices_are_among_those_there_are(field: str, value: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(BadInput, match=field):
        Limit("api", in_flight=1, **{field: value})


def test_a_limit_has_a_name() -> None:
    with pytest.raises(BadName):
        Limit("API", in_flight=1)


def test_the_fields_are_all_but_the_name() -> None:
    assert "name" not in FIELDS
    assert {"in_flight", "windows", "breaker_after"} <= {*FIELDS}


def test_a_call_is_one_call_unless_it_says_otherwise() -> None:
    assert check_units(None) == {"calls": 1}
    assert check_units({"pages": 15}) == {"calls": 1, "pages": 15}
    assert check_units({"calls": 0}) == {"calls": 0}


@pytest.mark.parametrize("units", [5, ["pages"], {"pages": -1}, {"pages": 1.5}, {"pages": True}, {"a b": 1}, {5: 1}])
def test_units_that_are_none_are_refused(units: object) -> None:
    with pytest.raises((BadInput, BadName)):
        check_units(units)
