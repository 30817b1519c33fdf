from __future__ import annotations

import pytest

from forebay.errors import BadInput
from forebay.limits import written
from forebay.model.limit import Window
from tests.unit.builders import assert_helpful


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("190/60", Window(190, 60)),
        (" 190 / 60 ", Window(190, 60)),
        ("0/60", Window(0, 60)),
        ("10/0.5", Window(10, 0.5)),
        ("40000/60:tokens", Window(40_000, 60, "tokens")),
    ],
)
def test_a_window_is_written_as_number_seconds_and_unit(text: str, window: Window) -> None:
    assert written.window(text) == window


@pytest.mark.parametrize(
    "text", ["", "190", "/60", "190/", "-1/60", "190/0", "190/60:", "190/60:T", "1e3/60", "190/60/2", "1_0/60", "٣/60"]
)
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        written.window(text)
    assert_helpful(caught.value)


def test_several_windows_are_separated_by_commas() -> None:
    assert written.windows(["190/60, 5/1", "9/9:pages"]) == (Window(190, 60), Window(5, 1), Window(9, 9, "pages"))
    assert written.windows(["none"]) == ()


def test_a_table_has_the_fields_of_a_limit() -> None:
    table = {"in_flight": 150, "windows": [[190, 60], [40000, 60, "tokens"], "5/1"], "cooldown_s": [1, 2]}
    assert written.from_table("adobe", table) == {
        "in_flight": 150,
        "windows": (Window(190, 60), Window(40_000, 60, "tokens"), Window(5, 1)),
        "cooldown_s": (1, 2),
    }
    assert written.from_table("adobe", {"call_timeout_s": 90}) == {"call_timeout_s": 90}


@pytest.mark.parametrize(
    "table",
    [
        5,
        [],
        {"in_flite": 5},
        {"in_flight": "5"},
        {"in_flight": -1},
        {"in_flight": True},
        {"windows": 5},
        {"windows": [5]},
        {"windows": [[]]},
        {"windows": [[190]]},
        {"windows": [[190, 60, "tokens", 1]]},
        {"windows": [["190", 60]]},
        {"windows": [[190, 60], [180, 60]]},
        {"cooldown_s": []},
        {"lease_s": 3, "heartbeat_s": 2},
        {"when_store_down": "pray"},
    ],
)
def test_a_table_that_no_limit_can_have_is_refused(table: object) -> None:
    with pytest.raises(BadInput) as caught:
        written.from_table("adobe", table)
    assert_helpful(caught.value)


def test_variables_name_a_limit_and_a_field() -> None:
    environ = {
        "FOREBAY_LIMIT_ADOBE_IN_FLIGHT": "150",
        "FOREBAY_LIMIT_ADOBE_WINDOWS": "190/60,40000/60:tokens",
        "FOREBAY_LIMIT_ADOBE_CALL_TIMEOUT_S": "90",
        "FOREBAY_LIMIT_ADOBE_COOLDOWN_S": "1,2.5",
        "FOREBAY_LIMIT_ADOBE_WHEN_STORE_DOWN": "fail",
        "FOREBAY_LIMIT_FREE_IN_FLIGHT": "none",
        "FOREBAY_LIMIT_EMPTY_IN_FLIGHT": "",
        "FOREBAY_LIMITS": "redis://a",
        "OTHER": "1",
    }
    assert written.from_environment(environ) == {
        "adobe": {
            "in_flight": 150,
            "windows": (Window(190, 60), Window(40_000, 60, "tokens")),
            "call_timeout_s": 90,
            "cooldown_s": (1, 2.5),
            "when_store_down": "fail",
        },
        "free": {"in_flight": None},
    }


def test_a_name_with_a_dash_is_found_among_those_that_are_known() -> None:
    environ = {"FOREBAY_LIMIT_ADOBE_PUBLISHED_IN_FLIGHT": "5"}
    assert written.from_environment(environ, ["adobe-published"]) == {"adobe-published": {"in_flight": 5}}
    assert written.from_environment(environ) == {"adobe_published": {"in_flight": 5}}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FOREBAY_LIMIT_ADOBE_IN_FLIGHT", "many"),
        ("FOREBAY_LIMIT_ADOBE_IN_FLIGHT", "1_0"),
        ("FOREBAY_LIMIT_ADOBE_IN_FLIGHT", "5.5"),
        ("FOREBAY_LIMIT_ADOBE_WINDOWS", "190"),
        ("FOREBAY_LIMIT_ADOBE_LEASE_S", "nan"),
        ("FOREBAY_LIMIT_ADOBE_RPM", "190"),
        ("FOREBAY_LIMIT_IN_FLIGHT", "5"),
        ("FOREBAY_LIMIT_ADOBE_BREAKER_AFTER", "none"),
        ("FOREBAY_LIMIT_Ä_IN_FLIGHT", "5"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(variable: str, value: str) -> None:
    with pytest.raises(BadInput) as caught:
        written.from_environment({variable: value})
    assert_helpful(caught.value)
    assert variable in caught.value.what


def test_bounds_of_units_in_flight_are_written_beside_that_of_calls() -> None:
    assert written.in_flight("in_flight", "400") == 400
    assert written.in_flight("in_flight", "none") is None
    assert written.in_flight("in_flight", "400, 5000:pages") == {"calls": 400, "pages": 5000}
    assert written.in_flight("in_flight", "5000:pages") == {"pages": 5000}
    assert written.unit_bounds("in_flight_units", "5000:pages,9:words") == {"pages": 5000, "words": 9}
    assert written.unit_bounds("in_flight_units", "none") == {}


@pytest.mark.parametrize("text", ["400,500", "x:pages", "5:pages,6:pages", ":pages", "400,none"])
def test_what_is_not_a_bound_in_flight_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        written.in_flight("in_flight", text)
    assert_helpful(caught.value)


def test_a_table_and_a_variable_may_bound_units_in_flight() -> None:
    table = {"in_flight": {"calls": 400, "pages": 5000}}
    assert written.from_table("adobe", table) == table
    environ = {"FOREBAY_LIMIT_ADOBE_IN_FLIGHT": "400,5000:pages", "FOREBAY_LIMIT_LLM_IN_FLIGHT_UNITS": "9:pages"}
    assert written.from_environment(environ) == {"adobe": table, "llm": {"in_flight_units": {"pages": 9}}}
    for wrong in ({"pages": -1}, {"Pages!": 1}, {"pages": True}):
        with pytest.raises(BadInput):
            written.from_table("adobe", {"in_flight": wrong})
