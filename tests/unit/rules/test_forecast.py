from __future__ import annotations

from typing import Any, cast

import pytest

from forebay.model.limit_record import Answer, Terms, Wait
from forebay.rules import forecast, limit_state
from forebay.rules import window_log as logs
from forebay.rules.forecast import IN_FLIGHT, UNKNOWN, Ahead
from tests.unit.rules.limit_builders import NOW, limit_terms, record_of


def behind(terms: Terms, before: int, *, used: int = 0, **wait: Any) -> Wait:  # noqa: ANN401 - of a wait
    told = cast("Wait", {"ask_again_in_ms": 700, "eta_ms": 1000, "ahead_count": 0, "blocked_by": [IN_FLIGHT], **wait})
    return forecast.wait_behind(told, cast("Answer", {"in_flight_count": used}), terms, before)


def test_callers_behind_the_first_wait_for_as_many_more_calls() -> None:
    terms = limit_terms(2)
    assert behind(terms, 3, used=2) == {
        "ask_again_in_ms": 700,
        "eta_ms": 4000,
        "ahead_count": 3,
        "blocked_by": [IN_FLIGHT],
    }
    assert behind(terms, 3, used=3, ahead_count=1) == {
        "ask_again_in_ms": 700,
        "eta_ms": 2000,
        "ahead_count": 4,
        "blocked_by": [IN_FLIGHT],
    }
    assert behind(limit_terms(1), 3, used=1)["eta_ms"] == 4000


def test_before_any_call_has_ended_nobody_knows_when_the_next_may_start() -> None:
    terms = limit_terms(2, call_timeout_s=60)
    guess = terms["call_timeout_ms"] // 2
    unknown = behind(terms, 1, used=2, eta_ms=guess, ask_again_in_ms=UNKNOWN + 1)
    assert (unknown["eta_ms"], unknown["ask_again_in_ms"]) == (limit_state.FOREVER, UNKNOWN)
    assert behind(terms, 1, used=2, eta_ms=guess, ask_again_in_ms=5)["ask_again_in_ms"] == 5
    assert behind(terms, 1, used=2, ahead_count=2, eta_ms=3 * guess)["eta_ms"] == limit_state.FOREVER
    assert behind(terms, 1, used=2, eta_ms=guess + 1)["eta_ms"] == 2 * (guess + 1)


@pytest.mark.parametrize("before", [9, 10, 25])
def test_each_full_window_of_callers_before_one_takes_a_whole_window(before: int) -> None:
    terms = limit_terms(None, [(10, 60)])
    (bound,) = terms["windows"]
    found = behind(terms, before, blocked_by=[logs.name(bound)])
    assert found["eta_ms"] == 1000 + before // 10 * logs.width(bound, terms)
    assert behind(terms, before, blocked_by=["cooldown"])["eta_ms"] == 1000  # this window is open


def test_a_wait_that_has_no_end_stays_so() -> None:
    assert behind(limit_terms(2), 3, used=2, eta_ms=limit_state.FOREVER)["eta_ms"] == limit_state.FOREVER


def test_calls_that_take_no_time_to_speak_of_still_hold_their_slots() -> None:
    record = record_of(5)
    record["mean_call_ms"] = 1
    record["sessions"] = cast("Any", {"a": {"ends_at": NOW + 9, "calls": [{"until": NOW + 9}] * 5, "runs": []}})
    assert forecast.foretold(record, limit_terms(5), Ahead(0, {}), {"calls": 1}, NOW) == (0, [IN_FLIGHT])


def test_a_time_is_told_in_seconds_unless_nobody_can_tell() -> None:
    far = limit_state.FOREVER // 2
    etas = {
        eta: forecast.eta_s(cast("Wait", {"eta_ms": eta})) for eta in (0, 1500, far, far + 1000, limit_state.FOREVER)
    }
    assert etas == {0: 0.0, 1500: 1.5, far: far / 1000, far + 1000: None, limit_state.FOREVER: None}


@pytest.mark.parametrize(("eta_s", "found"), [(None, 0.7), (0.0, 0.05), (0.06, 0.06), (1.5, 1.5)])
def test_a_refused_caller_sleeps_until_its_turn_or_asks_again(eta_s: float | None, found: float) -> None:
    assert forecast.retry_in_s(cast("Wait", {"ask_again_in_ms": 700}), eta_s) == found


def test_a_limit_that_has_room_again_adds_nothing_for_those_before() -> None:
    assert behind(limit_terms(2), 3, used=1)["eta_ms"] == 1000


@pytest.mark.parametrize(
    ("ahead", "units", "eta"),
    [
        (Ahead(0, {}), {"calls": 1}, 1301),
        (Ahead(1, {"calls": 1}), {}, 1301),
        (Ahead(1, {"calls": 1}), {"calls": 1}, 1401),
        (Ahead(1, {"pages": 1}), {"pages": 1}, 0),
    ],
)
def test_a_full_window_is_waited_for_only_as_far_as_its_own_unit_is_needed(
    ahead: Ahead, units: dict[str, int], eta: int
) -> None:
    record = record_of(None, [(2, 1.0)])
    record["window_logs"]["calls/1000"] = {"sum": 2, "entries": [NOW, 1, NOW + 100, 1]}
    assert forecast.foretold(record, record["eras"][0]["terms"], ahead, units, NOW)[0] == eta


@pytest.mark.parametrize(("ms", "told"), [(1300, (1, ["calls/1000"])), (1301, (0, []))])
def test_a_window_is_waited_for_until_its_last_millisecond(ms: int, told: tuple[int, list[str]]) -> None:
    record = record_of(None, [(1, 1.0)])
    terms = record["eras"][0]["terms"]
    record["window_logs"]["calls/1000"] = {"sum": 1, "entries": [NOW, 1]}
    limit_state.tidy(record, terms, NOW + ms)
    assert forecast.foretold(record, terms, Ahead(0, {}), {"calls": 1}, NOW + ms) == told
