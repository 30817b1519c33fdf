from __future__ import annotations

from typing import Any

import pytest

from forebay.model.limit_record import Record
from forebay.rules import admission, forecast, limit_state
from forebay.rules.forecast import Places
from tests.unit.rules.limit_builders import NOW, ask_of, limit_terms, record_of, wish

HELD = 62_050
LEASE = 15_000


def said(record: Record, sid: str = "a", n: int = 1, **fields: Any) -> Any:  # noqa: ANN401 - an answer
    return admission.decide(record, ask_of(sid, n, **fields), NOW)


def part_of(record: Record, **rest: Any) -> Record:  # noqa: ANN401 - of a rest
    """The record as a store reads it that left out other sessions."""
    nothing = {
        "in_flight_count": 0,
        "in_flight_sums": {},
        "cut_off_count": 0,
        "latest_call_until": 0,
        "session_count": 0,
        "caller_count": 0,
        "run_count": 0,
        "before_count": 0,
        "horizon": [],
    }
    record["rest"] = nothing | rest  # type: ignore[typeddict-item]
    return record


def test_a_call_counts_and_gives_back_only_the_units_that_it_names() -> None:
    record = record_of(None, [(10, 60.0, "pages")])
    (window,) = limit_state.counted(record)
    log = limit_state.log_of(record, window.name)
    limit_state.count(record, {"calls": 1}, NOW)
    assert log["sum"] == 0
    limit_state.count(record, {"pages": 4}, NOW)
    limit_state.uncount(record, {"calls": 1}, NOW, NOW)
    assert log["sum"] == 4
    limit_state.uncount(record, {"pages": 3}, NOW, NOW)
    assert log["sum"] == 1


def test_a_record_that_was_read_whole_leaves_out_nothing() -> None:
    record = record_of(2)
    said(record, runs=[wish(count=3)])
    counts = (
        limit_state.in_flight(record),
        limit_state.cut_off_count(record),
        limit_state.session_count(record),
        limit_state.waiting_count(record),
        limit_state.rank(record, limit_terms(2), 10_000),
    )
    assert counts == (2, 0, 1, 1, 1)
    assert limit_state.horizon(record) is None
    assert limit_state.rest_of(record)["latest_call_until"] == 0


def test_what_a_record_leaves_out_counts_beside_what_it_has() -> None:
    record = record_of(2)
    said(record, runs=[wish(count=3)])
    said(record, n=2, ended_calls=[{"call_id": 1, "outcome": "cut_off", "units": {}}], runs=[wish(count=3)])
    part_of(record, in_flight_count=4, cut_off_count=3, session_count=5, caller_count=6, run_count=2, before_count=7)
    assert limit_state.in_flight(record) == 2 + 4
    assert limit_state.cut_off_count(record) == 1 + 3
    assert limit_state.session_count(record) == 1 + 5
    assert limit_state.waiting_count(record) == 1 + 6
    assert limit_state.rank(record, limit_terms(2), 10_000) == 1 + 7


def test_calls_that_a_record_leaves_out_hold_their_slots() -> None:
    answer = said(
        part_of(record_of(5), in_flight_count=4, caller_count=3, run_count=2, session_count=2), runs=[wish(count=2)]
    )
    assert [grant["call_count"] for grant in answer["grants"]] == [1]
    assert (answer["in_flight_count"], answer["other_caller_count"], answer["session_count"]) == (5, 3, 3)


@pytest.mark.parametrize(("runs", "virtual"), [(0, 0), (1, 200)])
def test_the_place_that_was_served_last_is_kept_while_a_run_waits_that_the_record_leaves_out(
    runs: int, virtual: int
) -> None:
    record = part_of(record_of(5), run_count=runs)
    record["virtual_time"] = 200
    said(record, runs=[wish()])
    assert record["virtual_time"] == virtual


def test_nobody_is_served_behind_a_run_that_the_record_leaves_out() -> None:
    record = record_of(0)
    said(record, runs=[wish(1, key="x"), wish(2, key="y"), wish(3, key="z")])
    for tag, run in zip((3, 4, 4), record["sessions"]["a"]["runs"], strict=True):
        run["virtual_start"] = tag
    part_of(record, run_count=1, horizon=[4, 2])
    record["eras"][0]["terms"]["in_flight"] = 9
    answer = said(record, "b")
    assert answer["woken_session_ids"] == ["a"]
    assert [run["id"] for run in record["sessions"]["a"]["runs"]] == [3]


@pytest.mark.parametrize(("horizon", "more"), [([], 0), ([3, 9], 1)])
def test_a_step_that_served_all_that_it_knew_goes_on_with_what_it_left_out(horizon: list[int], more: int) -> None:
    record = part_of(record_of(9), run_count=len(horizon), horizon=horizon)
    answer = said(record, runs=[wish()])
    assert (len(answer["grants"]), answer["has_more"]) == (1, more)


def test_a_run_that_moves_behind_one_that_the_record_leaves_out_waits_for_the_next_step() -> None:
    answer = said(part_of(record_of(9), run_count=1, horizon=[3, 9]), runs=[wish(count=3)])
    assert ([grant["call_count"] for grant in answer["grants"]], answer["has_more"]) == ([1], 1)


def test_a_loss_is_waited_out_until_the_last_call_is_over_that_the_record_leaves_out() -> None:
    record = part_of(record_of(5), in_flight_count=4, cut_off_count=2, latest_call_until=NOW + HELD + 700)
    answer = said(record, seen_version=9)
    assert (answer["in_flight_count"], answer["cut_off_count"], record["held_back_until"]) == (0, 0, NOW + HELD + 700)
    short = part_of(record_of(5), in_flight_count=4, latest_call_until=NOW + 700)
    said(short, seen_version=9)
    assert short["held_back_until"] == NOW + HELD


def test_those_before_one_that_the_record_leaves_out_are_taken_to_be_like_those_that_it_has() -> None:
    record = part_of(record_of(None, [(10, 1.0, "pages")]), before_count=6)
    said(record, "full", runs=[wish(units={"pages": 10})])
    said(record, "other", runs=[wish(1, 2, {"pages": 5}, key="x"), wish(2, 4, {"pages": 1}, key="y")])
    said(record, runs=[wish(key="own")])
    terms = record["eras"][0]["terms"]
    (run,) = record["sessions"]["a"]["runs"] = [{**wish(key="own"), "virtual_start": 9000, "arrival_number": 9}]  # type: ignore[typeddict-unknown-key]
    known = [place for place in limit_state.line(record) if place.sid == "other"]

    def told(places: list[limit_state.Place], *, are_all: bool) -> tuple[int, int]:
        (wait,) = forecast.waits(record, "a", Places(places, are_all=are_all), terms, NOW)
        return wait["ahead_count"], wait["eta_ms"]

    # The two runs that are known have six callers with 14 pages, and eight runs stand before it.
    assert run["units"] == {"calls": 1}
    assert told(known, are_all=False) == (24, 6 * 1301)
    assert told(known, are_all=True) == (6, 2 * 1301)
    assert told([], are_all=False) == (0, 0)


def test_a_store_that_lost_sessions_starts_again_and_waits_for_the_last_of_their_calls() -> None:
    record = record_of(2, [(9, 1.0)])
    said(record, runs=[wish(count=3)])
    limit_state.start_again(record, record["eras"][0]["terms"], NOW, NOW + 99_000)
    assert (record["generation"], record["held_back_until"], record["virtual_time"]) == (2, NOW + 99_000, 0)
    assert (record["sessions"], record["tails"], record["window_logs"]) == ({}, {}, {})
    without_calls = record_of(2)
    limit_state.start_again(without_calls, limit_terms(2), NOW, 0)
    assert without_calls["held_back_until"] == NOW + HELD


def test_more_sessions_than_one_step_clears_away_are_told_to_be_due() -> None:
    record = record_of()
    for number in range(3):
        said(record, f"s{number}")
    terms = limit_terms()
    assert limit_state.prune(record, terms, NOW + LEASE, most=2)
    assert sorted(record["sessions"]) == ["s2"]
    assert not limit_state.prune(record, terms, NOW + LEASE, most=1)
    assert record["sessions"] == {}


def test_a_window_that_was_lowered_below_its_use_holds_up_only_calls_that_take_of_it() -> None:
    record = record_of(None, [(2, 1.0, "pages")])
    record["window_logs"]["pages/1000"] = {"sum": 3, "entries": [NOW, 3]}
    terms = record["eras"][0]["terms"]
    assert limit_state.windows_free_in(record, terms, {"calls": 1}, NOW + 1) == 0
    assert limit_state.windows_free_in(record, terms, {"pages": 0}, NOW + 1) == 0
    assert limit_state.windows_free_in(record, terms, {"pages": 1}, NOW + 1) == 1300
