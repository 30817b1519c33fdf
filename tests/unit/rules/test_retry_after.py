from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.rules.retry_after import MAX_S, google_retry_info, parse, rate_limit_reset

NOW = datetime(2026, 1, 27, 12, 0, 0, tzinfo=UTC).timestamp()
NAMES = st.sampled_from(["Retry-After", "retry-after-ms", "x-ms-retry-after-ms", "X-Other"])
ALMOST = st.text("0123456789.,:+-eE GMTUCinfaJanFebMonday\t\0", max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["error", "details", "@type", "retryDelay"]) | st.text(), inner, max_size=4)
    ),
)


def wait(value: str, name: str = "Retry-After", now: float = NOW) -> float | None:
    return parse({name: value}, now=now)


def retry_info(delay: object, kind: object = "type.googleapis.com/google.rpc.RetryInfo") -> dict[str, object]:
    return {"error": {"code": 429, "details": [{"@type": kind, "retryDelay": delay}]}}


@pytest.mark.parametrize(
    ("value", "seconds"), [("0", 0), ("12", 12), ("12.5", 12.5), ("7.", 7), (".5", 0.5), ("\t 3 ", 3), ("007", 7)]
)
def test_seconds_may_be_whole_or_fractional_and_padded(value: str, seconds: float) -> None:
    assert wait(value) == seconds


@pytest.mark.parametrize("name", ["retry-after-ms", "Retry-After-Ms", "x-ms-retry-after-ms", " X-MS-RETRY-AFTER-MS "])
def test_millisecond_headers_are_read_in_any_case(name: str) -> None:
    assert wait("1500", name) == 1.5


def test_milliseconds_are_believed_before_seconds() -> None:
    headers = {"RETRY-AFTER": "2", "Retry-After-Ms": "1250", "X-Ms-Retry-After-Ms": "1300"}
    assert parse(headers, now=NOW) == 1.25


def test_garbage_in_a_finer_header_does_not_hide_the_coarser_one() -> None:
    assert parse({"retry-after-ms": "soon", "x-ms-retry-after-ms": "-1", "Retry-After": "9"}, now=NOW) == 9


@pytest.mark.parametrize(
    "value",
    [
        "Tue, 27 Jan 2026 12:00:30 GMT",
        "Tue, 27 Jan 2026 12:00:30 UTC",
        "tue, 27 jan 2026 12:00:30 gmt",
        "Tuesday, 27-Jan-26 12:00:30 GMT",
        "Tue Jan 27 12:00:30 2026",
    ],
)
def test_a_date_in_each_form_of_the_standard_is_a_wait_from_now(value: str) -> None:
    assert wait(value) == 30


def test_a_day_of_one_digit_may_be_padded_with_a_space() -> None:
    assert wait("Sun Feb  1 12:00:00 2026") == 5 * 86_400


@pytest.mark.parametrize(
    "value", ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
)
def test_a_date_in_the_past_means_no_wait(value: str) -> None:
    assert wait(value) == 0


def test_a_leap_second_is_the_second_after_the_fifty_ninth() -> None:
    assert wait("Tue, 27 Jan 2026 12:00:60 GMT") == 60


def test_a_short_year_is_never_more_than_fifty_years_ahead() -> None:
    assert wait("Monday, 27-Jan-75 12:00:00 GMT") == MAX_S
    assert wait("Thursday, 27-Jan-77 12:00:00 GMT") == 0


@pytest.mark.parametrize("now", [math.nan, math.inf, -math.inf, 1e300, -1e300])
def test_a_senseless_clock_gives_a_bounded_answer_or_none(now: float) -> None:
    assert wait("Tue, 27 Jan 2026 12:00:30 GMT", now=now) in {0, MAX_S}
    assert wait("Tuesday, 27-Jan-26 12:00:30 GMT", now=now) in {None, 0, MAX_S}


@pytest.mark.parametrize(
    "value",
    [
        "",
        "   ",
        ".",
        "-1",
        "-0.5",
        "+1",
        "nan",
        "inf",
        "-inf",
        "1e3",
        "0x10",
        "1_000",
        "١٢",
        "5, 10",
        "5 s",
        "soon",
        "Tue, 27 Jan 2026",
        "Tue, 27 Jan 2026 12:00:30 CET",
        "Tue, 27 Foo 2026 12:00:30 GMT",
        "Tue, 31 Feb 2026 12:00:30 GMT",
        "Tue, 27 Jan 2026 24:00:30 GMT",
        "Tue, 27 Jan 2026 12:60:30 GMT",
        "Tue, 27 Jan 2026 12:00:61 GMT",
        "Tue, 27 Jan 0000 12:00:30 GMT",
        "2026-01-27T12:00:30Z",
    ],
)
def test_what_is_neither_a_number_nor_a_date_asks_for_nothing(value: str) -> None:
    assert wait(value) is None


def test_a_negative_wait_is_garbage_and_not_zero() -> None:
    assert [wait("-5", name) for name in ("Retry-After", "retry-after-ms", "x-ms-retry-after-ms")] == [None] * 3


@pytest.mark.parametrize("value", ["9" * 10_000, "9" * 10_000 + ".5", "1" + "0" * 20, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_an_absurdly_long_wait_is_bounded(value: str) -> None:
    assert wait(value) == MAX_S


def test_a_date_is_no_number_of_milliseconds() -> None:
    assert wait("Tue, 27 Jan 2026 12:00:30 GMT", "retry-after-ms") is None


def test_no_header_asks_for_nothing() -> None:
    assert parse({}, now=NOW) is None
    assert parse({"Content-Type": "5"}, now=NOW) is None


@given(st.dictionaries(NAMES | st.text(max_size=8), st.text() | ALMOST), st.floats())
def test_any_headers_at_any_time_give_none_or_a_bounded_wait(headers: dict[str, str], now: float) -> None:
    found = parse(headers, now=now)
    assert found is None or 0 <= found <= MAX_S


@given(st.datetimes(timezones=st.just(UTC)), st.integers(-2 * int(MAX_S), 2 * int(MAX_S)))
def test_a_date_we_write_is_read_back_as_the_same_wait(moment: datetime, ahead_s: int) -> None:
    moment = moment.replace(microsecond=0)
    now = moment.timestamp() - ahead_s
    expected = min(max(0, ahead_s), MAX_S)
    # strftime pads neither years nor days alike on all platforms
    asctime = moment.strftime(f"%a %b {moment.day:2} %H:%M:%S {moment.year:04}")
    forms = [format_datetime(moment, usegmt=True), asctime]
    assert [wait(form, now=now) for form in forms] == [expected, expected]


@given(st.datetimes(datetime(1950, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)), st.integers(-40, 40))  # noqa: DTZ001
def test_a_short_year_is_read_as_the_century_near_now(now: datetime, years: int) -> None:
    moment = now.replace(microsecond=0) + timedelta(days=365 * years)
    expected = min(max(0.0, moment.timestamp() - now.timestamp()), MAX_S)
    assert wait(moment.strftime("%A, %d-%b-%y %H:%M:%S GMT"), now=now.timestamp()) == pytest.approx(expected)


@pytest.mark.parametrize(("delay", "seconds"), [("15s", 15), ("12.5s", 12.5), ("0.001s", 0.001), (" 3s ", 3)])
def test_google_retry_info_is_read_from_the_error_details(delay: str, seconds: float) -> None:
    assert google_retry_info(retry_info(delay)) == seconds


def test_google_retry_info_is_found_behind_other_details_and_inside_a_list() -> None:
    other = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED"}
    broken = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "soon"}
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "8s"}
    assert google_retry_info([{"error": {"details": [other, None, broken, info]}}]) == 8


@pytest.mark.parametrize("delay", ["", "s", "5", "-5s", "nans", "infs", "1e3s", "5 s", "5ms", 5, None, ["5s"]])
def test_google_retry_info_without_a_duration_asks_for_nothing(delay: object) -> None:
    assert google_retry_info(retry_info(delay)) is None


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "5s",
        {},
        {"error": None},
        {"error": "5s"},
        {"error": {"details": "5s"}},
        {"error": {"details": [["5s"]]}},
        retry_info("5s", kind="type.googleapis.com/google.rpc.Help"),
        retry_info("5s", kind=7),
    ],
)
def test_a_body_without_google_retry_info_asks_for_nothing(body: object) -> None:
    assert google_retry_info(body) is None


def test_an_absurd_google_delay_is_bounded() -> None:
    assert google_retry_info(retry_info("9" * 10_000 + "s")) == MAX_S


@given(JSON | st.builds(retry_info, JSON | ALMOST))
def test_any_json_gives_none_or_a_bounded_wait(body: object) -> None:
    found = google_retry_info(body)
    assert found is None or 0 <= found <= MAX_S


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20ms", 0.02),
        ("1s", 1),
        ("6m0s", 360),
        ("2m59.56s", 179.56),
        ("1h0m1s", 3601),
        ("1d2h", 93_600),
        ("59.5s", 59.5),
    ],
)
def test_a_budget_that_is_used_up_says_when_it_is_there_again(text: str, seconds: float) -> None:
    headers = {"X-RateLimit-Remaining-Requests": "0", "x-ratelimit-reset-requests": text}
    assert rate_limit_reset(headers, now=NOW) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "-1s", "1", "1s1m", "s", "m", "1x"])
def test_a_reset_that_is_no_span_says_nothing(text: str) -> None:
    assert rate_limit_reset({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": text}, now=NOW) is None


def test_a_budget_that_is_not_used_up_does_not_count_and_of_two_the_later_one_does() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "9h",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "3s",
    }
    assert rate_limit_reset(headers, now=NOW) == 3
    assert rate_limit_reset(headers | {"x-ratelimit-remaining-requests": "0"}, now=NOW) == 9 * 3600


@given(
    st.dictionaries(
        st.sampled_from(["x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"]), ALMOST | st.just("0")
    )
)
def test_any_rate_limit_headers_give_seconds_or_nothing(headers: dict[str, str]) -> None:
    found = rate_limit_reset(headers, now=NOW)
    assert found is None or 0 <= found <= MAX_S
