from __future__ import annotations

import copy
from typing import Any

import pytest

from forebay.model.limit_record import Answer, Record
from forebay.rules import admission, cooldown, forecast, limit_state
from forebay.rules.forecast import POLL, Ahead
from forebay.rules.limit_state import FOREVER, JUMP
from tests.unit.rules.limit_builders import NOW, ask_of, limit_terms, record_of, wish

HELD = 62_050
HELD_WITH_WINDOWS = 60_300
LEASE = 15_000


def said(record: Record, sid: str = "a", n: int = 1, *, now: int = NOW, **fields: Any) -> Answer:  # noqa: ANN401 - any field
    return admission.decide(record, ask_of(sid, n, **fields), now)


def granted(answer: Answer) -> list[tuple[int, int]]:
    """Run and count of each grant."""
    return [(grant["run_id"], grant["call_count"]) for grant in answer["grants"]]


def done(call_id: int, outcome: str = "ok", **units: int) -> dict[str, Any]:
    return {"call_id": call_id, "outcome": outcome, "units": units}


# Time.


def clock(*, offset: int = 0, last: int = NOW) -> Record:
    return record_of() | {"clock_offset_ms": offset, "last_step_at": last}


@pytest.mark.parametrize("seen", [-1, NOW])
def test_a_clock_that_goes_on_is_believed(seen: int) -> None:
    record = clock(offset=7)
    assert limit_state.logical(record, NOW + 93, seen=seen, elapsed=100) == NOW + 100
    assert (record["clock_offset_ms"], record["last_step_at"]) == (7, NOW + 100)


@pytest.mark.parametrize(("back", "now"), [(0, NOW), (1, NOW), (JUMP, NOW)])
def test_a_clock_that_goes_back_a_little_stands_still(back: int, now: int) -> None:
    record = clock()
    assert limit_state.logical(record, NOW - back) == now
    assert record["clock_offset_ms"] == 0
    assert limit_state.logical(record, NOW + 5) == NOW + 5


@pytest.mark.parametrize("back", [JUMP + 1, 3_600_000])
def test_a_clock_that_goes_back_far_goes_on_from_where_it_was(back: int) -> None:
    record = clock()
    assert limit_state.logical(record, NOW - back) == NOW
    assert record["clock_offset_ms"] == back
    assert limit_state.logical(record, NOW - back + 5) == NOW + 5


def test_one_who_remembers_knows_how_long_that_was() -> None:
    record = clock()
    assert limit_state.logical(record, NOW - 3_600_000, seen=NOW - 500, elapsed=1200) == NOW + 700
    assert record["clock_offset_ms"] == 3_600_700
    record = clock()
    assert limit_state.logical(record, NOW - 3_600_000, seen=NOW - 500, elapsed=100) == NOW


@pytest.mark.parametrize(("ahead", "now"), [(JUMP, NOW + 10 + JUMP), (JUMP + 1, NOW + 10), (3_600_000, NOW + 10)])
def test_a_clock_that_goes_ahead_far_is_not_believed_against_one_who_remembers(ahead: int, now: int) -> None:
    record = clock()
    assert limit_state.logical(record, NOW + 10 + ahead, seen=NOW, elapsed=10) == now
    assert limit_state.logical(record, NOW + 15 + ahead) == now + 5


@pytest.mark.parametrize(("seen", "now"), [(NOW - JUMP, NOW), (NOW - JUMP - 1, NOW + 9000)])
def test_one_who_remembers_less_than_others_is_not_believed(seen: int, now: int) -> None:
    assert limit_state.logical(clock(), NOW + 9000, seen=seen) == now


def test_one_who_counts_too_much_is_not_believed() -> None:
    record = clock()
    assert limit_state.logical(record, NOW + 10, seen=NOW, elapsed=90_000) == NOW + 10
    assert record["clock_offset_ms"] == 0


def test_a_clock_may_be_off_by_two_seconds() -> None:
    assert (JUMP, POLL) == (2000, 5000)


def test_an_instant_of_nought_is_one_too() -> None:
    record = clock(last=0)
    assert limit_state.logical(record, 9000, seen=0, elapsed=5) == 5


def test_one_who_remembers_no_instant_is_not_asked_how_long_ago_it_was() -> None:
    assert limit_state.logical(clock(last=JUMP + 500), 9000, seen=-1, elapsed=1000) == 9000


# Terms.


def test_terms_end_at_their_instant_and_the_next_are_a_new_version() -> None:
    record = record_of()
    record["eras"] = [
        {"ends_at": NOW + 5, "terms": limit_terms(1)},
        {"ends_at": NOW + 9, "terms": limit_terms(2)},
        {"ends_at": -1, "terms": limit_terms(3)},
    ]
    assert (limit_state.terms_at(record, NOW + 4)["in_flight"], record["terms_version"]) == (1, 1)
    assert (limit_state.terms_at(record, NOW + 5)["in_flight"], record["terms_version"]) == (2, 2)
    assert (limit_state.terms_at(record, NOW + 99)["in_flight"], record["terms_version"]) == (3, 3)
    assert (limit_state.terms_at(record, NOW + 99)["in_flight"], record["terms_version"]) == (3, 3)


def test_terms_that_have_ended_are_used_where_there_are_no_others() -> None:
    record = record_of()
    record["eras"][0]["ends_at"] = NOW
    assert limit_state.terms_at(record, NOW + 1)["in_flight"] == 5
    assert record["terms_version"] == 1


def test_terms_are_told_to_those_who_know_others() -> None:
    record = record_of()
    assert said(record)["terms"] == []
    assert said(record, n=2, terms_version=0)["terms"] == [record["eras"][0]["terms"]]


def test_all_windows_to_come_are_counted_and_the_first_says_how_long() -> None:
    record = record_of(None, [(9, 1.0)])
    record["eras"] = [
        {"ends_at": NOW + 5000, "terms": limit_terms(None, [(9, 1.0), (5, 2.0, "pages")])},
        {"ends_at": -1, "terms": limit_terms(None, [(9, 1.0), (9, 3.0)], start_within_s=5.0)},
    ]
    said(record, runs=[wish(units={"pages": 2})])
    assert {name: log["sum"] for name, log in record["window_logs"].items()} == {
        "calls/1000": 1,
        "pages/2000": 2,
        "calls/3000": 1,
    }
    said(record, "b", 0, now=NOW + 1301)
    assert [record["window_logs"][name]["sum"] for name in ("calls/1000", "calls/3000")] == [0, 1]


# Requests.


def test_a_record_without_terms_is_no_limit() -> None:
    answer = said(limit_state.new_record(NOW))
    assert (answer["status"], answer["now"], answer["version"], answer["generation"]) == ("unknown", NOW, 0, 1)
    nothing: dict[str, list[Any]] = {
        "restamps": [],
        "waits": [],
        "terms": [],
        "woken_session_ids": [],
        "grants": [],
        "window_sums": [],
        "in_flight_sums": [],
    }
    numbers = dict.fromkeys(
        (
            "version",
            "terms_version",
            "session_lost",
            "other_caller_count",
            "session_count",
            "in_flight_count",
            "cooldown_level",
            "cut_off_count",
            "clock_offset_ms",
            "shut_for_ms",
            "cooldown_began_at",
            "has_more",
        ),
        0,
    )
    assert admission.unknown(5) == {"status": "unknown", "now": 5, "generation": 1, **numbers, **nothing}


def test_a_new_record_begins_with_nothing() -> None:
    assert limit_state.new_record(NOW, 7) == {
        "version": 7,
        "generation": 1,
        "clock_offset_ms": 0,
        "last_step_at": NOW,
        "layers": [],
        "eras": [],
        "terms_version": 0,
        "window_logs": {},
        "sessions": {},
        "tails": {},
        "paused_until": -1,
        "pause_note": "",
        "cooldown": cooldown.none(),
        "held_back_until": 0,
        "virtual_time": 0,
        "arrival_count": 0,
        "mean_call_ms": 0,
        "freshness_ms": 0,
        "freshness_until": 0,
        "last_counted_at": 0,
    }


def test_every_request_is_a_new_version_and_opens_a_session() -> None:
    record = record_of()
    answer = said(record, label="host 1", runs=[wish(label="page 7")])
    assert (answer["status"], answer["version"], answer["session_lost"], answer["session_count"]) == ("ok", 1, 1, 1)
    assert answer["grants"] == [
        {"number": 1, "run_id": 1, "call_count": 1, "first_call_id": 1, "granted_at": NOW, "max_age_ms": 2000}
    ]
    assert record["sessions"]["a"] == {
        "ends_at": NOW + LEASE,
        "due_at": NOW + LEASE,
        "request_number": 1,
        "grant_number": 1,
        "next_call_id": 2,
        "label": "host 1",
        "calls": [
            {
                "id": 1,
                "granted_at": NOW,
                "counted_at": NOW,
                "call_until": NOW + HELD,
                "units": {"calls": 1},
                "label": "page 7",
            },
        ],
        "runs": [],
        "unconfirmed": answer["grants"],
    }
    assert said(record, n=2)["session_lost"] == 0
    assert record["version"] == 2


def test_a_request_that_was_overtaken_is_told_so_and_nothing_else_is_done() -> None:
    record = record_of()
    said(record, n=5, runs=[wish()])
    before = copy.deepcopy(record)
    answer = said(record, n=4, now=NOW + 9, runs=[wish(count=3)], ended_calls=[done(1)], terms_version=0)
    assert (answer["status"], answer["grants"], answer["terms"], answer["waits"]) == ("late", [], [], [])
    assert (answer["restamps"], answer["woken_session_ids"], answer["other_caller_count"], answer["session_lost"]) == (
        [],
        [],
        0,
        0,
    )
    assert record == before | {"version": 2, "last_step_at": NOW + 9}


def test_a_request_that_is_sent_again_is_not_late() -> None:
    record = record_of()
    first = said(record, n=5, runs=[wish()])
    assert said(record, n=5, runs=[wish()]) == first | {"version": 2, "session_lost": 0}


def test_a_session_goes_on_from_what_it_has_said_and_heard() -> None:
    record = record_of()
    answer = said(record, n=9, next_call_id=5, confirmed_grant_number=7, answered_request_number=8, runs=[wish()])
    assert answer["grants"] == [
        {"number": 8, "run_id": 1, "call_count": 1, "first_call_id": 5, "granted_at": NOW, "max_age_ms": 2000}
    ]
    said(record, n=0, next_call_id=3, confirmed_grant_number=2, answered_request_number=3)
    assert [record["sessions"]["a"][key] for key in ("next_call_id", "grant_number", "request_number")] == [6, 8, 9]
    said(record, n=0, answered_request_number=20)
    assert record["sessions"]["a"]["request_number"] == 20


def test_a_grant_is_repeated_until_it_was_heard() -> None:
    record = record_of()
    said(record, runs=[wish(count=2)])
    assert granted(said(record, n=0)) == [(1, 2)]
    assert granted(said(record, n=0, confirmed_grant_number=1)) == []


def test_what_one_is_given_in_one_step_is_one_grant_for_each_run_in_turn() -> None:
    record = record_of(9)
    answer = said(record, runs=[wish(1, 2, key="x"), wish(2, 2, key="y"), wish(3, 1, key="z")])
    assert granted(answer) == [(1, 1), (2, 1), (3, 1), (1, 1), (2, 1)]
    assert [grant["first_call_id"] for grant in answer["grants"]] == [1, 2, 3, 4, 5]
    again = said(record, n=2, runs=[wish(1, 3, key="x")])
    assert granted(again)[-1] == (1, 1)
    assert again["grants"][-1]["number"] == 6


def test_others_who_wait_are_counted() -> None:
    record = record_of(1)
    said(record, runs=[wish(count=3)])
    assert said(record, "b", runs=[wish(count=4)])["other_caller_count"] == 2
    assert said(record, n=0)["other_caller_count"] == 4


def test_sessions_that_have_ended_are_no_sessions() -> None:
    record = record_of()
    said(record, runs=[wish()])
    assert said(record, "b", now=NOW + LEASE - 1)["session_count"] == 2
    assert said(record, "b", n=2, now=NOW + LEASE)["session_count"] == 1
    assert "a" in record["sessions"]


# Ends of calls.


def test_how_long_calls_take_is_learned_an_eighth_at_a_time() -> None:
    record = record_of(9)
    said(record, runs=[wish(count=3)])
    said(record, n=2, now=NOW + 800, ended_calls=[done(1)])
    assert record["mean_call_ms"] == 800
    said(record, n=3, now=NOW + 1600, ended_calls=[done(2)])
    assert record["mean_call_ms"] == 900
    said(record, n=4, now=NOW + 1600, ended_calls=[done(3, "unsent")])
    assert record["mean_call_ms"] == 900


def test_units_are_settled_up_at_the_end_and_down_at_the_grant() -> None:
    record = record_of(None, [(99, 60.0, "pages")])
    said(record, runs=[wish(1, 2, {"pages": 10})])
    said(record, n=2, now=NOW + 5, ended_calls=[done(2, pages=7), done(1, pages=14)])
    assert record["window_logs"]["pages/60000"] == {"sum": 21, "entries": [NOW, 17, NOW + 5, 4]}
    said(record, n=3, now=NOW + 6, runs=[wish(2, 1, {"pages": 3})])
    said(record, n=4, now=NOW + 7, ended_calls=[done(3, pages=3, words=5)])
    assert record["window_logs"]["pages/60000"]["sum"] == 24


@pytest.mark.parametrize(("ms", "left"), [(1300, 3), (1301, 9)])
def test_what_does_not_count_any_more_is_not_taken_back_from_others(ms: int, left: int) -> None:
    record = record_of(None, [(99, 1.0, "pages")])
    said(record, runs=[wish(1, 1, {"pages": 6})])
    said(record, "b", runs=[wish(1, 1, {"pages": 0})])
    record["window_logs"]["pages/1000"] = {"sum": 9, "entries": [NOW, 6, NOW + 1, 3]}
    if ms == 1301:
        record["window_logs"]["pages/1000"] = {"sum": 9, "entries": [NOW + 1, 9]}
    said(record, n=2, now=NOW + ms, ended_calls=[done(1, "unsent")])
    assert record["window_logs"]["pages/1000"]["sum"] == left


def test_a_refusal_is_heard_before_the_end_of_its_call() -> None:
    record = record_of()
    said(record, runs=[wish()])
    hint = {"kind": "cooldown", "granted_at": NOW, "wait_ms": 500, "jitter_permille": 0}
    answer = said(record, n=2, now=NOW + 5, refusals=[hint], ended_calls=[done(1, "failed"), done(9)], runs=[wish(2)])
    assert (record["cooldown"]["ends_at"], record["cooldown"]["failure_count"], record["sessions"]["a"]["calls"]) == (
        NOW + 505,
        0,
        [],
    )
    assert answer["waits"][0]["blocked_by"] == ["cooldown"]


def test_the_end_of_a_call_and_each_grant_are_told_to_the_rest() -> None:
    record = record_of(breaker_after=1)
    record["cooldown"]["ramp_began_at"] = -1
    assert granted(said(record, runs=[wish(count=3)])) == [(1, 1)]
    assert (record["cooldown"]["ramp_began_at"], record["cooldown"]["ramp_grant_count"]) == (NOW, 1)
    said(record, n=2, now=NOW + 5, confirmed_grant_number=1, ended_calls=[done(1, "failed")])
    assert (record["cooldown"]["kind"], record["cooldown"]["began_at"]) == ("breaker", NOW + 5)


@pytest.mark.parametrize("outcome", ["cut_off", "timed_out"])
def test_a_call_that_was_cut_off_counts_until_its_provider_must_be_done_with_it(outcome: str) -> None:
    record = record_of()
    said(record, label="host 1", runs=[wish(count=2)])
    record["sessions"]["a"]["calls"][0]["call_until"] += 100
    said(record, n=2, now=NOW + 5, label="host 1", confirmed_grant_number=1, ended_calls=[done(1, outcome)])
    assert record["sessions"]["a:cut_off"] == {
        "ends_at": 0,
        "due_at": NOW + HELD + 100,
        "request_number": 0,
        "grant_number": 0,
        "next_call_id": 2,
        "label": "host 1",
        "calls": [
            {
                "id": 1,
                "granted_at": NOW,
                "counted_at": NOW,
                "call_until": NOW + HELD + 100,
                "units": {"calls": 1},
                "label": "",
            }
        ],
        "runs": [],
        "unconfirmed": [],
    }
    answer = said(record, n=3, now=NOW + 6, ended_calls=[done(2, outcome)])
    assert (
        answer["cut_off_count"],
        answer["in_flight_count"],
        record["mean_call_ms"],
        record["sessions"]["a"]["calls"],
    ) == (2, 2, 0, [])
    assert (record["sessions"]["a:cut_off"]["due_at"], record["sessions"]["a:cut_off"]["next_call_id"]) == (
        NOW + HELD,
        3,
    )
    assert said(record, n=4, now=NOW + HELD)["in_flight_count"] == 1
    assert said(record, n=5, now=NOW + HELD + 100)["in_flight_count"] == 0
    assert sorted(record["sessions"]) == ["a"]


def test_a_call_that_was_cut_off_is_free_at_once_where_the_provider_stops_with_its_caller() -> None:
    record = record_of(on_disconnect="stops")
    said(record, runs=[wish()])
    assert said(record, n=2, now=NOW + 5, ended_calls=[done(1, "cut_off")])["in_flight_count"] == 0
    assert sorted(record["sessions"]) == ["a"]


@pytest.mark.parametrize(
    ("outcome", "fails"), [("ok", 0), ("unsent", 1), ("unreached", 2), ("cut_off", 1), ("timed_out", 2), ("failed", 2)]
)
def test_a_call_that_failed_or_reached_nobody_counts_for_the_breaker(outcome: str, fails: int) -> None:
    record = record_of()
    said(record, runs=[wish()])
    record["cooldown"]["failure_count"] = 1
    said(record, n=2, now=NOW + 5, ended_calls=[done(1, outcome)])
    assert record["cooldown"]["failure_count"] == fails


# Late starts.


def test_a_late_start_moves_the_entry_and_the_end_of_the_call() -> None:
    record = record_of(None, [(9, 1.0)])
    said(record, runs=[wish()])
    answer = said(record, n=2, now=NOW + 1300, restamp_call_ids=[1, 2])
    assert answer["restamps"] == [{"call_id": 1, "granted_at": NOW + 1300, "max_age_ms": 250}]
    assert record["window_logs"]["calls/1000"] == {"sum": 1, "entries": [NOW + 1300, 1]}
    assert record["sessions"]["a"]["calls"][0]["granted_at"] == NOW + 1300
    assert record["sessions"]["a"]["calls"][0]["call_until"] == NOW + 1300 + HELD_WITH_WINDOWS


def test_a_start_at_the_instant_of_the_grant_moves_nothing() -> None:
    record = record_of(None, [(9, 1.0)])
    said(record, runs=[wish()])
    assert said(record, n=2, restamp_call_ids=[1])["restamps"] == [{"call_id": 1, "granted_at": NOW, "max_age_ms": 250}]
    assert record["window_logs"]["calls/1000"] == {"sum": 1, "entries": [NOW, 1]}


def test_no_call_starts_late_while_everybody_is_kept_out() -> None:
    record = record_of()
    said(record, runs=[wish(count=2)])
    record["paused_until"] = NOW + 5
    assert said(record, n=2, now=NOW + 4, restamp_call_ids=[1, 2])["restamps"] == []
    assert said(record, n=3, now=NOW + 5, restamp_call_ids=[2])["restamps"] == [
        {"call_id": 2, "granted_at": NOW + 5, "max_age_ms": 2000}
    ]


def test_a_start_is_too_late_as_soon_as_any_window_has_forgotten_the_grant() -> None:
    record = record_of(None, [(9, 60.0), (9, 1.0)])
    said(record, runs=[wish()])
    assert said(record, n=2, now=NOW + 1301, restamp_call_ids=[1])["restamps"] == []
    assert record["window_logs"]["calls/60000"] == {"sum": 1, "entries": [NOW, 1]}


@pytest.mark.parametrize(
    ("windows", "start_within_s", "late"), [((), 0.25, 2000), ((), 3.0, 3000), ([(9, 1.0)], 0.25, 250)]
)
def test_a_grant_may_be_used_late_where_no_window_counts(
    windows: list[tuple[int, float]], start_within_s: float, late: int
) -> None:
    record = record_of(5, windows, start_within_s=start_within_s)
    [grant] = said(record, runs=[wish()])["grants"]
    assert grant["max_age_ms"] == late
    assert record["sessions"]["a"]["calls"][0]["call_until"] == NOW + late + 50 + 60_000


def test_an_answer_says_for_how_long_everybody_is_kept_out() -> None:
    record = record_of()
    assert said(record)["shut_for_ms"] == 0
    record["paused_until"] = NOW + 5
    assert said(record, n=2)["shut_for_ms"] == 5
    assert (
        said(
            record,
            n=0,
            now=NOW + 5,
            refusals=[{"kind": "cooldown", "granted_at": NOW + 5, "wait_ms": 700, "jitter_permille": 0}],
        )["shut_for_ms"]
        == 700
    )


# The line.


@pytest.mark.parametrize(
    ("in_flight", "windows", "units", "share"),
    [
        (None, [(10, 1.0, "pages")], {"pages": 3}, 300),
        (4, [(10, 1.0, "pages")], {"pages": 2}, 250),
        (4, [(10, 1.0, "pages"), (5, 9.0)], {"pages": 9}, 900),
        (3000, [], {}, 1),
        (0, [(0, 1.0)], {}, 1),
        (3, [(7, 1.0)], {}, 333),
        (1, [], {}, 1000),
        (None, [(1, 1.0)], {}, 1000),
        (None, [(2, 1.0)], {}, 500),
        (None, [(7, 1.0, "pages")], {"pages": 90}, 1000),
    ],
)
def test_a_call_costs_the_largest_share_that_it_takes(
    in_flight: int | None, windows: list[tuple[int, float]], units: dict[str, int], share: int
) -> None:
    assert limit_state.cost({"calls": 1, **units}, limit_terms(in_flight, windows)) == share


def test_who_comes_stands_behind_the_last_of_its_key_and_who_was_there_keeps_the_place() -> None:
    # In a limit that is paused each costs 1: the line is as it was made.
    record = record_of(0)
    record["virtual_time"] = 50
    said(record, runs=[wish(1, 2, key="x")])
    said(record, "b", runs=[wish(1, 3, key="x"), wish(2, 1, key="y"), wish(3, 1, key="x")])
    said(record, "b", 2, runs=[wish(1, 2, key="x"), wish(3, 1, key="x"), wish(4, 1, key="x")])
    tags = {(sid, run["id"]): run["virtual_start"] for sid, seat in record["sessions"].items() for run in seat["runs"]}
    assert tags == {("a", 1): 50, ("b", 1): 52, ("b", 3): 55, ("b", 4): 56}
    assert [(place.sid, place.run["id"]) for place in limit_state.line(record)] == [
        ("a", 1),
        ("b", 1),
        ("b", 3),
        ("b", 4),
    ]


def test_the_front_is_before_all_and_counts_for_nobody_behind_it() -> None:
    record = record_of(0)
    said(record, runs=[wish(1), wish(2, front=1)])
    said(record, "b", runs=[wish(1), wish(2, front=1)])
    assert [(place.sid, place.run["id"]) for place in limit_state.line(record)] == [
        ("a", 2),
        ("b", 2),
        ("a", 1),
        ("b", 1),
    ]
    assert record["sessions"]["a"]["runs"][1]["virtual_start"] == -FOREVER


def test_those_served_without_having_heard_are_not_put_in_line_again() -> None:
    record = record_of(2)
    said(record, runs=[wish(count=5)])
    said(record, n=2, runs=[wish(count=4)])
    assert record["sessions"]["a"]["runs"][0]["caller_count"] == 2
    said(record, n=3, runs=[wish(count=2)])
    assert record["sessions"]["a"]["runs"] == []
    said(record, n=4, runs=[wish(count=1)])
    assert record["sessions"]["a"]["runs"] == []


def test_the_place_that_was_served_last_is_remembered_while_anybody_waits() -> None:
    record = record_of(2)
    said(record, runs=[wish(count=3)])
    assert record["virtual_time"] == 500
    assert record["sessions"]["a"]["runs"][0]["virtual_start"] == 1000
    said(record, n=2, confirmed_grant_number=1, ended_calls=[done(1)], runs=[wish(count=1)])
    assert record["virtual_time"] == 0


def test_who_has_not_confirmed_gets_no_more_unless_it_asks() -> None:
    record = record_of(3)
    said(record, runs=[wish(count=2)])
    said(record, "b", runs=[wish(count=1)])
    said(record, "a", 2, confirmed_grant_number=1, runs=[wish(2, 4)])
    answer = said(record, "b", 2, confirmed_grant_number=1, ended_calls=[done(1)])
    assert answer["woken_session_ids"] == ["a"]
    said(record, "a", 0, now=NOW + 1)
    assert len(record["sessions"]["a"]["calls"]) == 3
    record["eras"][0]["terms"]["in_flight"] = 5
    assert said(record, "b", 3)["woken_session_ids"] == []
    assert len(said(record, "a", 3, confirmed_grant_number=1, runs=[wish(2, 4)])["grants"]) == 2


def test_those_woken_are_named_in_order_and_once() -> None:
    record = record_of(0)
    for sid in ("c", "a", "b"):
        said(record, sid, runs=[wish(count=2)])
    record["eras"][0]["terms"]["in_flight"] = 9
    assert said(record, "b", 2, runs=[wish(count=2)])["woken_session_ids"] == ["a", "c"]


def test_a_run_that_was_served_moves_behind_those_that_are_now_before_it() -> None:
    record = record_of(0)
    for number, sid in enumerate("abc"):
        said(record, sid, runs=[wish(count=2, key=sid)])
        record["sessions"][sid]["runs"][0]["virtual_start"] = number
    record["eras"][0]["terms"]["in_flight"] = 4
    said(record, "d")
    assert [len(record["sessions"][sid]["calls"]) for sid in "abc"] == [2, 1, 1]


# Overtaking.


def overtaken(in_flight: int | None = None, *, small: int = 1, ramp: int = 0) -> Record:
    """A head of 8 pages of 10 waits for 6 that are in the way, and somebody small behind it."""
    record = record_of(in_flight, [(10, 10.0, "pages")])
    said(record, "a", runs=[wish(units={"pages": 6})])
    record["cooldown"]["ramp_began_at"] = ramp
    said(record, "b", now=NOW + 5, runs=[wish(units={"pages": 8})])
    said(record, "c", now=NOW + 5, runs=[wish(units={"pages": small})])
    return record


@pytest.mark.parametrize(
    ("in_flight", "small", "calls"), [(None, 2, 1), (None, 3, 0), (3, 2, 1), (2, 2, 0), (3, 0, 1), (2, 0, 0)]
)
def test_a_small_one_passes_only_if_there_is_room_beside_the_head(
    in_flight: int | None, small: int, calls: int
) -> None:
    assert len(overtaken(in_flight, small=small)["sessions"]["c"]["calls"]) == calls


def test_one_that_takes_nothing_of_the_window_that_the_head_waits_for_passes() -> None:
    record = record_of(None, [(10, 10.0, "pages"), (5, 20.0, "words")])
    said(record, "a", runs=[wish(units={"pages": 6, "words": 5})])
    said(record, "b", now=NOW + 5, runs=[wish(units={"pages": 10})])
    said(record, "c", now=NOW + 5, runs=[wish(units={"pages": 1}), wish(2)])
    assert [call["units"] for call in record["sessions"]["c"]["calls"]] == [{"calls": 1}]


def test_nobody_passes_on_a_ramp() -> None:
    assert overtaken(ramp=NOW - 3000)["sessions"]["c"]["calls"] == []


def test_the_room_beside_the_head_is_that_of_its_start() -> None:
    record = record_of(None, [(10, 10.0, "pages")])
    said(record, "a", runs=[wish(units={"pages": 3})])
    said(record, "a", 2, now=NOW + 100, confirmed_grant_number=1, runs=[wish(2, units={"pages": 3})])
    # The head needs 3 of the 6 to go, the 3 others are still there when it starts.
    said(record, "b", now=NOW + 200, runs=[wish(units={"pages": 5})])
    said(record, "c", now=NOW + 200, runs=[wish(1, 9, units={"pages": 1})])
    assert len(record["sessions"]["c"]["calls"]) == 2


def test_too_large_is_more_than_a_window_ever_holds() -> None:
    terms = limit_terms(None, [(5, 1.0, "pages"), (0, 2.0, "words")])
    assert not limit_state.too_large(terms, {"pages": 5, "words": 3})
    assert limit_state.too_large(terms, {"pages": 6})


# What keeps everybody out.


@pytest.mark.parametrize(
    ("fields", "gate"),
    [
        ({}, ("", 0)),
        ({"paused_until": 0}, ("paused", FOREVER)),
        ({"paused_until": NOW + 1}, ("paused", NOW + 1)),
        ({"paused_until": NOW}, ("", 0)),
        ({"held_back_until": NOW + 1}, ("relearning", NOW + 1)),
        ({"held_back_until": NOW}, ("", 0)),
    ],
)
def test_a_pause_or_a_hold_keeps_everybody_out_until_its_end(fields: dict[str, int], gate: tuple[str, int]) -> None:
    record: Any = record_of() | fields
    assert limit_state.gate(record, limit_terms(), NOW) == gate


@pytest.mark.parametrize(
    ("until", "hold", "gate"),
    [
        (NOW + 5, 0, ("breaker", NOW + 5)),
        (NOW + 5, NOW + 5, ("breaker", NOW + 5)),
        (NOW + 5, NOW + 6, ("relearning", NOW + 6)),
        (NOW, NOW + 1, ("relearning", NOW + 1)),
        (NOW, 0, ("", 0)),
    ],
)
def test_of_a_rest_and_a_hold_the_longer_is_told(until: int, hold: int, gate: tuple[str, int]) -> None:
    record = record_of()
    record["cooldown"]["kind"], record["cooldown"]["ends_at"] = "breaker", until
    record["held_back_until"] = hold
    assert limit_state.gate(record, limit_terms(), NOW) == gate


@pytest.mark.parametrize("terms", [limit_terms(0), limit_terms(5, [(3, 1.0), (0, 2.0)])])
def test_a_bound_of_nought_keeps_everybody_out_for_good(terms: Any) -> None:  # noqa: ANN401 - any field
    assert limit_state.gate(record_of(), terms, NOW) == ("paused", FOREVER)


# Sessions that end.


def test_calls_of_a_session_that_has_ended_go_one_by_one_and_it_goes_with_the_last() -> None:
    record = record_of()
    said(record, runs=[wish(count=2)])
    record["sessions"]["a"]["calls"][1]["call_until"] += 1
    record["sessions"]["a"]["runs"] = [{**wish(), "virtual_start": 0, "arrival_number": 1}]  # type: ignore[typeddict-unknown-key]
    record["tails"][""] = {"virtual_finish": 200, "run_count": 1}
    said(record, "b", now=NOW + LEASE)
    assert (record["sessions"]["a"]["runs"], record["sessions"]["a"]["unconfirmed"]) == ([], [])
    assert len(record["sessions"]["a"]["calls"]) == 2
    said(record, "b", 2, now=NOW + HELD)
    assert [call["id"] for call in record["sessions"]["a"]["calls"]] == [2]
    said(record, "b", 3, now=NOW + HELD + 1)
    assert sorted(record["sessions"]) == ["b"]


def test_tidying_drops_what_does_not_count_any_more() -> None:
    record = record_of(5, [(9, 1.0)])
    said(record, runs=[wish()])
    limit_state.tidy(record, limit_terms(5, [(9, 1.0)]), NOW + HELD)
    assert (record["sessions"], record["window_logs"]["calls/1000"]["sum"]) == ({}, 0)


# A store that forgot.


@pytest.mark.parametrize(
    ("fields", "found_out"),
    [
        ({"seen_version": 1}, False),
        ({"seen_version": 2}, True),
        ({"answered_request_number": 3, "is_sure": 1}, False),
        ({"answered_request_number": 4, "is_sure": 1}, True),
        ({"answered_request_number": 4}, False),
        ({"confirmed_grant_number": 2, "is_sure": 1}, False),
        ({"confirmed_grant_number": 3, "is_sure": 1}, True),
        ({"confirmed_grant_number": 3}, False),
    ],
)
def test_whoever_remembers_more_finds_it_out(fields: dict[str, Any], found_out: bool) -> None:  # noqa: FBT001 - parametrized
    record = record_of()
    said(record, n=3)
    record["sessions"]["a"]["grant_number"] = 2
    answer = said(record, n=0, seen_at=NOW, **fields)
    assert (answer["generation"], record["held_back_until"]) == ((2, NOW + HELD) if found_out else (1, 0))
    assert answer["version"] == (max(2, fields.get("seen_version", 0) + 1) if found_out else 1)


@pytest.mark.parametrize(
    "fields", [{"answered_request_number": 1, "is_sure": 1}, {"confirmed_grant_number": 1, "is_sure": 1}]
)
def test_a_session_that_is_not_there_has_said_and_heard_nothing(fields: dict[str, Any]) -> None:
    assert said(record_of(), n=9, seen_at=NOW, **fields)["generation"] == 2


@pytest.mark.parametrize(("ms", "gen"), [(LEASE - 1, 2), (LEASE, 1)])
def test_a_request_that_was_long_on_its_way_may_find_its_session_ended(ms: int, gen: int) -> None:
    record = record_of()
    record["last_step_at"] = NOW + ms
    assert (
        said(record, n=9, now=NOW + ms, seen_at=NOW, elapsed_ms=ms - 10, answered_request_number=1, is_sure=1)[
            "generation"
        ]
        == gen
    )


def test_what_others_hold_is_dropped_and_waited_for() -> None:
    record = record_of(5, call_timeout_s=100.0)
    said(record, "b", runs=[wish(count=2)])
    record["eras"][0]["terms"]["call_timeout_ms"] = 10
    said(record, n=0, seen_version=9)
    assert record["held_back_until"] == NOW + 102_050
    assert (record["sessions"]["b"]["calls"], record["sessions"]["b"]["unconfirmed"]) == ([], [])


def test_a_hold_is_as_long_as_the_longest_window_and_never_shorter_than_it_was() -> None:
    record = record_of()
    limit_state.hold_back(record, limit_terms(5, [(1, 100.0), (1, 7.0)]), NOW)
    assert record["held_back_until"] == NOW + 100_401
    limit_state.hold_back(record, limit_terms(), NOW)
    assert record["held_back_until"] == NOW + 100_401


# What one who waits is told.


def test_one_who_need_not_wait_has_no_forecast() -> None:
    record = record_of()
    assert forecast.foretold(record, limit_terms(), Ahead(4, {}), {"calls": 1}, NOW) == (0, [])


def test_a_forecast_is_the_longest_of_all_that_is_waited_for() -> None:
    record = record_of(2, [(2, 1.0), (9, 9.0, "pages")])
    terms = record["eras"][0]["terms"]
    said(record, runs=[wish(count=2, units={"pages": 4})])
    record["mean_call_ms"] = 100
    units = {"calls": 1, "pages": 0}
    assert forecast.foretold(record, terms, Ahead(0, {}), units, NOW) == (1301, ["in_flight", "calls/1000"])
    record["mean_call_ms"] = 9000
    assert forecast.foretold(record, terms, Ahead(0, {}), units, NOW) == (4500, ["in_flight", "calls/1000"])
    ahead = Ahead(1, {"calls": 1, "pages": 2})
    assert forecast.foretold(record, terms, ahead, units, NOW)[0] == 9301
    record["cooldown"] |= {"kind": "quota", "ends_at": NOW + 20_000, "ramp_began_at": -1}
    assert forecast.foretold(record, terms, Ahead(0, {}), units, NOW) == (20_000, ["quota", "in_flight", "calls/1000"])


def test_a_forecast_without_any_known_call_takes_the_timeout() -> None:
    record = record_of(1)
    said(record, runs=[wish()])
    assert forecast.foretold(record, limit_terms(1), Ahead(1, {}), {}, NOW) == (120_000, ["in_flight"])


def test_a_forecast_on_a_ramp_is_its_next_second() -> None:
    record = record_of()
    record["cooldown"] |= {"ramp_began_at": NOW - 300, "ramp_grant_count": 1}
    assert forecast.foretold(record, limit_terms(), Ahead(0, {}), {}, NOW) == (700, ["ramp"])


def test_what_never_fits_is_never_free() -> None:
    terms = limit_terms(None, [(5, 1.0)])
    assert forecast.foretold(record_of(), terms, Ahead(0, {}), {"calls": 6}, NOW) == (FOREVER, ["too_large"])


def test_a_limit_that_is_paused_by_nought_waits_for_no_window_of_it() -> None:
    terms = limit_terms(None, [(0, 1.0), (5, 2.0)])
    assert forecast.foretold(record_of(), terms, Ahead(0, {}), {"calls": 1}, NOW) == (FOREVER - NOW, ["paused"])


def test_no_forecast_goes_beyond_for_ever() -> None:
    terms = limit_terms(None, [(1, 34_560_000.0)])
    ahead = Ahead(10_000, {"calls": 10_000})
    assert forecast.foretold(record_of(), terms, ahead, {"calls": 1}, NOW)[0] == FOREVER


def test_all_who_wait_are_ahead_of_a_newcomer() -> None:
    record = record_of(0, [(5, 1.0, "pages")])
    said(record, runs=[wish(1, 2, {"pages": 3}), wish(2, 1), wish(3, 1, {"pages": 6})])
    said(record, "b", runs=[wish(1, 4, {"pages": 1})])
    assert forecast.all_ahead(record, record["eras"][0]["terms"]) == Ahead(7, {"calls": 7, "pages": 10})


def told(record: Record, sid: str = "b", *, now: int = NOW, **fields: Any) -> Any:  # noqa: ANN401 - any field
    [wait] = said(record, sid, now=now, **fields)["waits"]
    return wait


def test_the_first_asks_again_when_something_lets_it_in_by_itself() -> None:
    record = record_of(1, [(9, 1.0)])
    said(record, runs=[wish()])
    # In flight: nobody's session ends within the time of a poll.
    assert told(record, runs=[wish()])["ask_again_in_ms"] == POLL
    assert told(record, n=2, now=NOW + LEASE - 10, runs=[wish()])["ask_again_in_ms"] == 10
    # When it has ended, its calls count until they are over.
    assert told(record, n=3, now=NOW + LEASE, runs=[wish()])["ask_again_in_ms"] == POLL
    assert told(record, n=4, now=NOW + HELD_WITH_WINDOWS - 7, runs=[wish()])["ask_again_in_ms"] == 7


def test_the_first_asks_again_when_its_window_opens_or_a_session_ends_whichever_is_first() -> None:
    record = record_of(1, [(1, 1.0)])
    said(record, runs=[wish()])
    assert told(record, runs=[wish()])["ask_again_in_ms"] == 1301
    record["sessions"]["a"]["ends_at"] = record["sessions"]["a"]["due_at"] = NOW + 100
    record["sessions"]["a"]["calls"][0]["call_until"] = NOW + 90
    assert told(record, n=2, runs=[wish()])["ask_again_in_ms"] == 100


def test_the_first_asks_again_at_the_end_of_a_pause_or_with_the_next_second_of_a_ramp() -> None:
    record = record_of()
    record["paused_until"] = NOW + 77
    assert told(record, runs=[wish()]) == {
        "ask_again_in_ms": 77,
        "eta_ms": 77,
        "ahead_count": 0,
        "blocked_by": ["paused"],
    }
    record["paused_until"] = NOW + 2 * POLL
    assert told(record, n=2, runs=[wish()])["ask_again_in_ms"] == POLL
    record = record_of()
    record["cooldown"] |= {"ramp_began_at": NOW - 300, "ramp_grant_count": 1}
    assert told(record, runs=[wish()])["ask_again_in_ms"] == 700


def test_who_may_be_the_probe_of_a_ramp_waits_for_the_calls_in_flight_and_not_for_the_ramp() -> None:
    record = record_of(1)
    said(record, runs=[wish()])
    record["cooldown"]["ramp_began_at"] = -1
    assert told(record, runs=[wish()])["ask_again_in_ms"] == POLL


def test_others_ask_again_a_little_after_they_should_have_been_let_in() -> None:
    record = record_of(None, [(1, 1.0)])
    said(record, runs=[wish(count=2)])
    assert told(record, runs=[wish()]) == {
        "ask_again_in_ms": 2 * 1301 + 10,
        "eta_ms": 2602,
        "ahead_count": 1,
        "blocked_by": ["calls/1000"],
    }
    said(record, n=2, confirmed_grant_number=1, runs=[wish(count=9)])
    assert told(record, n=2, runs=[wish()])["ask_again_in_ms"] == POLL
    assert admission.decide(record, ask_of("c", runs=[]), NOW)["waits"] == []


def test_others_ask_again_later_where_only_the_mean_call_tells_when_they_are_let_in() -> None:
    """A window opens at its instant; when calls end is a guess, and whoever ends one lets the next in."""
    record = record_of(2, [(1, 1.0)])
    record["mean_call_ms"] = 5200
    said(record, runs=[wish(count=2)])
    assert told(record, runs=[wish()])["ask_again_in_ms"] == 2602 + 10
    record["mean_call_ms"] = 5300
    by = ["in_flight", "calls/1000"]
    assert told(record, n=2, runs=[wish()]) == {
        "ask_again_in_ms": 2650 + 50,
        "eta_ms": 2650,
        "ahead_count": 1,
        "blocked_by": by,
    }


def test_what_is_too_large_is_before_nobody() -> None:
    record = record_of(None, [(1, 1.0)])
    said(record, "a", runs=[wish(units={"calls": 2})])
    said(record, "c", runs=[wish()])
    assert told(record, runs=[wish()]) == {
        "ask_again_in_ms": 1301,
        "eta_ms": 1301,
        "ahead_count": 0,
        "blocked_by": ["calls/1000"],
    }


def test_the_end_of_a_session_that_should_be_over_is_waited_for_as_little_as_can_be() -> None:
    record = record_of(1)
    said(record, runs=[wish()])
    record["sessions"]["a"]["due_at"] = record["sessions"]["a"]["ends_at"] = NOW + 1
    assert told(record, runs=[wish()])["ask_again_in_ms"] == 1


# At most so much in one step.


def with_sessions(in_flight: int, count: int, *, callers: int = 1) -> Record:
    """A limit that was paused while so many sessions came, each with one run under a key of its own."""
    record = record_of(0)
    for number in range(count):
        said(record, f"s{number:03}", runs=[wish(count=callers, key=f"k{number:03}")])
    record["eras"][0]["terms"]["in_flight"] = in_flight
    return record


def test_a_step_grants_so_many_and_says_that_there_is_more() -> None:
    record = with_sessions(100, 5, callers=20)
    answer = said(record, "asker")
    assert (limit_state.in_flight(record), answer["has_more"]) == (limit_state.MOST_GRANTS, 1)
    # The others have not confirmed, so nobody is left to be served.
    assert said(record, "asker", 2)["has_more"] == 0


def test_a_step_looks_at_the_first_of_the_line_and_the_next_one_goes_on() -> None:
    record = with_sessions(100, 70)
    asked = [said(record, "asker", n) for n in (1, 2, 3, 4)]
    assert [(len(answer["woken_session_ids"]), answer["has_more"]) for answer in asked] == [
        (32, 1),
        (32, 1),
        (6, 0),
        (0, 0),
    ]


def test_a_run_that_moves_behind_those_that_were_looked_at_waits_for_the_next_step() -> None:
    record = with_sessions(100, 33, callers=2)
    answer = said(record, "asker")
    assert [len(seat["calls"]) for seat in record["sessions"].values()] == [1] * 32 + [0, 0]
    assert (len(answer["woken_session_ids"]), answer["has_more"]) == (32, 1)


def test_a_run_that_moves_before_the_last_that_was_looked_at_is_served_again_in_the_same_step() -> None:
    record = with_sessions(100, 33)
    seats = record["sessions"]
    seats["s000"]["runs"][0]["caller_count"] = 2
    seats["s031"]["runs"][0]["virtual_start"] = 20
    seats["s032"]["runs"][0]["virtual_start"] = 30
    said(record, "asker")
    assert [len(seats[sid]["calls"]) for sid in ("s000", "s001", "s030", "s031", "s032")] == [2, 1, 1, 0, 0]


def test_a_full_limit_has_nothing_more_to_do() -> None:
    record = with_sessions(10, 70)
    assert said(record, "asker")["has_more"] == 0
    assert said(record, "asker", 2)["has_more"] == 0


def test_a_step_clears_away_so_many_sessions_that_have_ended_the_longest_ago_first() -> None:
    record = record_of()
    for number in range(10):
        said(record, f"s{number}", now=NOW + number)
    answer = said(record, "asker", now=NOW + 10 + LEASE)
    assert (sorted(record["sessions"]), answer["has_more"], answer["session_count"]) == (["asker", "s8", "s9"], 1, 3)
    assert said(record, "asker", 2, now=NOW + 10 + LEASE)["has_more"] == 0
    assert sorted(record["sessions"]) == ["asker"]


@pytest.mark.parametrize(("count", "ahead"), [(31, 31), (40, 40), (200, 200)])
def test_who_stands_far_behind_is_told_about_how_many_are_ahead(count: int, ahead: int) -> None:
    record = with_sessions(0, count)
    record["virtual_time"] = 5
    assert told(record, "late", runs=[wish(key="own")])["ahead_count"] == ahead


def test_all_who_have_yet_to_confirm_are_before_who_comes_late() -> None:
    record = with_sessions(40, 40, callers=2)
    for n in (1, 2):
        said(record, "asker", n)
    assert {
        (len(seat["unconfirmed"]), len(seat["runs"])) for sid, seat in record["sessions"].items() if sid != "asker"
    } == {(1, 1)}
    record["virtual_time"] = 5000
    assert told(record, "late", runs=[wish(key="own")])["ahead_count"] == 40


def test_beyond_the_first_places_callers_are_counted_by_the_mean_run() -> None:
    record = with_sessions(0, 20, callers=1)
    for number in range(60):
        said(record, f"t{number:02}", runs=[wish(count=3, key=f"t{number:02}")])
    record["virtual_time"] = 5
    # Of the first 32 places, 20 have one caller and 12 have three: 1.75 for each of 80.
    assert told(record, "late", runs=[wish(key="own", units={"pages": 2})])["ahead_count"] == 140


def test_the_tail_of_a_key_stays_where_it_was_until_its_last_run_leaves() -> None:
    record = record_of(0)
    said(record, "a", runs=[wish(1, 5, key="k")])
    said(record, "b", runs=[wish(1, 3, key="k")])
    assert record["tails"] == {"k": {"virtual_finish": 8, "run_count": 2}}
    said(record, "b", 2)
    assert record["tails"] == {"k": {"virtual_finish": 8, "run_count": 1}}
    said(record, "c", runs=[wish(1, 1, key="k")])
    assert record["sessions"]["c"]["runs"][0]["virtual_start"] == 8
    said(record, "a", 2)
    said(record, "c", 2)
    assert record["tails"] == {}


def test_a_heartbeat_renews_its_session_and_changes_nothing_else() -> None:
    record = record_of(1, [(9, 1.0)])
    said(record, runs=[wish(count=2)])
    said(record, "b", runs=[wish()])
    before = copy.deepcopy(record)
    answer = said(record, "b", 0, now=NOW + 4000, answered_request_number=1)
    assert (answer["other_caller_count"], answer["in_flight_count"], answer["waits"], answer["version"]) == (
        1,
        1,
        [],
        before["version"],
    )
    before["last_step_at"] = NOW + 4000
    before["sessions"]["b"]["ends_at"] = before["sessions"]["b"]["due_at"] = NOW + 4000 + LEASE
    assert record == before


def test_a_heartbeat_that_confirms_lets_the_rest_of_the_session_in() -> None:
    record = record_of(1)
    said(record, runs=[wish(count=2)])
    record["eras"][0]["terms"]["in_flight"] = 2
    assert granted(said(record, n=0)) == [(1, 1)]
    assert granted(said(record, n=0, confirmed_grant_number=1)) == [(1, 1)]


@pytest.mark.parametrize(
    ("fields", "jump", "beats"),
    [
        ({}, 0, True),
        ({"seen_at": NOW}, -60_000, False),
        ({"request_number": 1}, 0, False),
        ({"seen_version": 99}, 0, False),
    ],
)
def test_a_heartbeat_alone_is_told_from_what_has_to_know_more(fields: dict[str, Any], jump: int, beats: bool) -> None:  # noqa: FBT001 - parametrized
    record = record_of(1, [(9, 1.0)])
    said(record, runs=[wish()])
    whole = copy.deepcopy(record)
    asked = ask_of("a", **{"request_number": 0, "answered_request_number": 1} | fields)
    answer = admission.beat(record, asked, NOW + 10 + jump)
    assert (answer is not None) == beats
    if beats:
        assert answer == admission.decide(whole, asked, NOW + 10)
        assert record == whole
