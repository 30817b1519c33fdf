from __future__ import annotations

import math
import string
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.errors import BadInput, BadName, ForebayError
from forebay.ids import shown
from forebay.model.names import (
    MAX_DURATION_S,
    check_amount,
    check_count,
    check_duration,
    check_instant,
    check_label,
    check_lane,
    check_name,
    kind_of,
    lane_of,
)
from tests.unit.builders import assert_helpful

ALPHABET = string.ascii_lowercase + string.digits + "_.-"


@given(st.text(ALPHABET, min_size=1, max_size=64).filter(lambda name: name not in {".", ".."}))
def test_a_name_of_the_alphabet_is_taken_as_it_is(name: str) -> None:
    assert check_name("kind", name) == name


@given(st.text(max_size=80))
def test_a_text_is_a_name_or_refused_with_a_remedy(text: str) -> None:
    fits = 1 <= len(text) <= 64 and set(text) <= set(ALPHABET) and text not in {".", ".."}
    try:
        assert check_name("kind", text) == text
        assert fits
    except BadName as error:
        assert not fits
        assert_helpful(error)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../a",
        "a/b",
        "a\\b",
        "A",
        "a b",
        "a'",
        'a"',
        "ä",
        "a\n",
        "\n",
        "a\0",
        "\ud800",
        "x" * 65,
        "x" * 10_240,
    ],
)
def test_a_name_that_could_leave_its_place_is_refused(name: str) -> None:
    with pytest.raises(BadName, match="kind") as caught:
        check_name("kind", name)
    assert_helpful(caught.value)


@pytest.mark.parametrize("value", [None, 7, b"ocr", ["ocr"], 10**5000, math.nan], ids=shown)
def test_a_name_that_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(BadName, match=f"kind must be text, not {type(value).__name__}") as caught:
        check_name("kind", value)
    assert_helpful(caught.value)


@pytest.mark.parametrize("label", ["a", "invoice 17", "../a 'b' \"c\"", "größer als 3 €", "日本", "x" * 200])
def test_a_printable_line_is_a_label(label: str) -> None:
    assert check_label("tag", label) == label


@pytest.mark.parametrize(
    "label",
    [
        "",
        "x" * 201,
        "x" * 10_240,
        "a\nb",
        "a\0",
        "\x1b[2J",
        "\ud800",
        "a\u2028b",
        "\u202egnp.exe",
        "\x7f",
        None,
        7,
        b"a",
        [],
    ],
)
def test_a_label_that_would_garble_a_line_is_refused(label: object) -> None:
    with pytest.raises(BadName, match="tag") as caught:
        check_label("tag", label)
    assert_helpful(caught.value)


@given(st.floats(0, MAX_DURATION_S) | st.integers(0, int(MAX_DURATION_S)))
def test_a_duration_of_up_to_a_century_is_taken(value: float) -> None:
    assert check_duration("delay_s", value) == value
    assert isinstance(check_duration("delay_s", value), float)


NO_NUMBERS = [
    -1,
    -0.001,
    math.nan,
    math.inf,
    -math.inf,
    1e300,
    10**400,
    10**5000,
    -(10**5000),
    True,
    None,
    "5",
    b"5",
    [5],
    Decimal(5),
]


@pytest.mark.parametrize(
    "value",
    NO_NUMBERS,
    ids=shown,
)
@pytest.mark.parametrize("check", [check_duration, check_instant, check_amount])
def test_what_is_no_finite_number_from_zero_on_is_refused(check: type, value: object) -> None:
    with pytest.raises(BadInput, match="delay_s") as caught:
        check("delay_s", value)
    assert_helpful(caught.value)


def test_a_duration_ends_at_a_hundred_leap_years() -> None:
    assert check_duration("delay_s", 3_162_240_000) == MAX_DURATION_S
    with pytest.raises(BadInput, match="outside 0 to 3162240000"):
        check_duration("delay_s", 3_162_240_001)


def test_an_instant_has_a_date_that_people_can_read() -> None:
    assert check_instant("deadline_at", 253_402_300_799) == 253_402_300_799.0
    with pytest.raises(BadInput, match="outside 0 to 253402300799"):
        check_instant("deadline_at", 253_402_300_800)


def test_each_kind_of_number_says_what_it_counts() -> None:
    told = {}
    for check in (check_duration, check_instant, check_amount):
        with pytest.raises(BadInput) as caught:
            check("value", "x")
        told[check.__name__] = caught.value.remedy
    assert "seconds since 1970" in told["check_instant"]
    assert "seconds, 0 or more" in told["check_duration"]
    assert "seconds" not in told["check_amount"]


@given(st.integers(-5, 5), st.integers(-5, 5), st.integers(-7, 7))
def test_a_count_is_taken_exactly_within_its_bounds(least: int, most: int, value: int) -> None:
    if least <= value <= most:
        assert check_count("size", value, least=least, most=most) == value
    else:
        with pytest.raises(BadInput, match="size"):
            check_count("size", value, least=least, most=most)


@pytest.mark.parametrize(
    "value",
    [True, 1.0, 1.5, math.nan, "1", None, -1, 10**9 + 1, 10**5000],
    ids=shown,
)
def test_what_counts_nothing_is_refused(value: object) -> None:
    with pytest.raises(BadInput, match="size") as caught:
        check_count("size", value)
    assert_helpful(caught.value)


def test_a_count_goes_from_zero_to_a_billion_by_itself() -> None:
    assert [check_count("size", value) for value in (0, 10**9)] == [0, 10**9]


def test_a_lane_is_a_kind_and_its_limit() -> None:
    assert lane_of("call_api") == "call_api"
    assert lane_of("call_api", "adobe") == "call_api@adobe"


def test_two_lanes_never_meet() -> None:
    # "@" is outside the alphabet of both parts, so no kind can pretend to be another's lane.
    with pytest.raises(ForebayError):
        check_name("kind", "call_api@adobe")


NAMES = st.text(ALPHABET, min_size=1, max_size=64).filter(lambda name: name not in {".", ".."})


@given(NAMES, NAMES | st.none())
def test_every_lane_of_a_task_is_one_and_tells_its_kind(kind: str, limit: str | None) -> None:
    lane = lane_of(kind, limit)
    assert check_lane(lane) == lane
    assert kind_of(lane) == kind


@pytest.mark.parametrize(
    "value",
    [
        "",
        "@",
        "ocr@",
        "@adobe",
        "ocr@adobe@x",
        "..",
        "ocr@..",
        "OCR",
        "ocr adobe",
        "ocr/adobe",
        "a" * 65,
        None,
        7,
        b"ocr",
    ],
)
def test_what_is_no_lane_is_refused(value: object) -> None:
    with pytest.raises(BadName) as caught:
        check_lane(value)
    assert_helpful(caught.value)
