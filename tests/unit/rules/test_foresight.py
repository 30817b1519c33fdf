"""What a limit's record tells those who wait in a ledger: windows to the millisecond, calls in flight by their mean."""

from __future__ import annotations

from copy import deepcopy

import pytest

from forebay.model.limit_record import Record
from forebay.model.task import WaitReason
from forebay.rules import admission, limit_actions
from forebay.rules.foresight import Outlook
from forebay.rules.why import LimitView
from tests.unit.rules.limit_builders import NOW, ask_of, record_of, wish

AT = 1_800_000_000.0


def asked(record: Record, sid: str, count: int, *, label: str = "", now: int = NOW, **units: int) -> None:
    seat = record["sessions"].get(sid)
    ask = ask_of(sid, n=seat["request_number"] + 1 if seat else 1, runs=[wish(1, count, units, label=label)])
    admission.decide(record, ask, now)


def view(record: Record, *, ahead: int = 0, running: int = 0, now: int = NOW, **units: int) -> LimitView:
    outlook = Outlook.of("api", record, now)
    needed = {"calls": 1, **units} if units else None
    return outlook.view("call", ahead=ahead, running=running, at=AT, units=needed)


def test_a_limit_with_room_holds_nobody_back() -> None:
    found = view(record_of(5))
    assert (found.gates, found.eta_s, found.level, found.cooldown_for_s) == ((), 0.0, 0, 0.0)


@pytest.mark.parametrize("ahead", [0, 1, 2, 3, 6, 7, 14])
def test_the_time_of_a_window_is_that_of_one_who_takes_every_grant_as_soon_as_it_can_be_had(ahead: int) -> None:
    """The limiter itself serves a line of so many and one, and the last of them starts when it was foretold."""
    record = record_of(None, [(3, 2.0)])
    for index in range(3):
        asked(record, f"early{index}", 1, now=NOW + 170 * index)
    now = NOW + 500
    foretold = view(record, ahead=ahead, now=now).eta_s
    assert foretold is not None
    asked(record, "line", ahead + 1, now=now)
    started = []
    for _ in range(ahead + 20):
        seat = record["sessions"]["line"]
        started = [call["granted_at"] for call in seat["calls"]]
        if len(started) == ahead + 1:
            break
        left = ahead + 1 - len(started)
        answer = admission.decide(
            record,
            ask_of(
                "line",
                n=seat["request_number"] + 1,
                confirmed_grant_number=seat["grant_number"],
                runs=[wish(1, left)],
                seen_at=-1,
            ),
            now,
        )
        now += answer["waits"][0]["ask_again_in_ms"] if answer["waits"] else 0
    assert started[-1] == NOW + 500 + round(foretold * 1000)


def test_calls_in_flight_are_foretold_by_how_long_calls_take() -> None:
    record = record_of(5)
    asked(record, "a", 5)
    record["mean_call_ms"] = 10_000
    found = view(record, ahead=9)
    # Ten have to end before it, five at a time.
    assert (found.eta_s, found.mean_call_s) == (20.0, 10.0)
    (gate,) = found.gates
    assert (gate.reason, gate.binds, gate.text) == (
        WaitReason.LIMIT,
        "in_flight 5/5",
        "limit 'api' has 5/5 calls in flight",
    )


def test_the_slot_of_one_who_fell_silent_is_free_when_its_call_has_to_end_and_that_comes_nearer() -> None:
    record = record_of(1)
    asked(record, "killed", 1)
    (call,) = record["sessions"]["killed"]["calls"]
    silent_at = record["sessions"]["killed"]["ends_at"]
    for mean in (0, 2000):
        record["mean_call_ms"] = mean
        for now in (silent_at, silent_at + 10_000, call["call_until"] - 1):
            assert view(deepcopy(record), now=now).eta_s == (call["call_until"] - now) / 1000
        assert view(deepcopy(record), now=call["call_until"]).eta_s == 0.0
    # As long as it may be alive, its call takes as long as others, but no longer than it may.
    record["mean_call_ms"] = 0
    assert view(deepcopy(record), now=NOW + 9000).eta_s == min(60.0, (call["call_until"] - NOW - 9000) / 1000)


def test_places_that_workers_hold_in_line_for_these_same_tasks_are_not_counted_twice() -> None:
    record = record_of(1)
    asked(record, "a", 1)
    record["mean_call_ms"] = 1000
    alone = [view(record, ahead=ahead).eta_s for ahead in (0, 2, 7)]
    asked(record, "worker", 4, label="call")
    assert [view(record, ahead=ahead).eta_s for ahead in (0, 2, 7)] == alone == [1.0, 3.0, 8.0]


def test_others_in_line_come_first_where_they_stand_before_its_kind() -> None:
    record = record_of(1)
    asked(record, "a", 1)
    record["mean_call_ms"] = 1000
    asked(record, "other", 3, label="else")
    asked(record, "worker", 2, label="call")
    asked(record, "late", 5, label="else")
    assert view(record, ahead=0).eta_s == 4.0
    assert view(record, ahead=1).eta_s == 5.0
    assert view(record, ahead=2).eta_s == 11.0


def test_the_units_of_others_in_line_are_used_up_before_its_own() -> None:
    record = record_of(None, [(10, 60.0, "pages")])
    asked(record, "a", 1, pages=10)
    alone_s = view(record, pages=10).eta_s
    assert alone_s is not None
    asked(record, "other", 2, label="else", pages=5)
    assert view(record, pages=10).eta_s == pytest.approx(2 * alone_s)
    asked(record, "more", 1, label="else", pages=10)
    assert view(record, pages=10).eta_s == pytest.approx(3 * alone_s)


def test_tasks_that_a_worker_has_in_hand_come_before_those_that_are_not_claimed() -> None:
    record = record_of(1)
    asked(record, "a", 1, label="call")
    record["mean_call_ms"] = 1000
    asked(record, "worker", 2, label="call")
    assert view(record, running=1).eta_s == 1.0
    assert view(record, running=3).eta_s == 3.0
    assert [view(record, running=count).in_hand_count for count in (1, 2, 9)] == [0, 1, 2]
    assert not any(view(record, running=count).all_in_hand for count in (0, 1, 2, 9))


def test_all_claimed_tasks_wait_in_hand_only_while_none_of_their_kind_calls() -> None:
    record = record_of(1)
    asked(record, "a", 1, label="else")
    asked(record, "worker", 2, label="call")
    assert [view(record, running=count).all_in_hand for count in (0, 1, 2, 3)] == [False, True, True, False]


def test_a_task_whose_units_nobody_told_is_taken_to_be_like_others_of_its_kind() -> None:
    record = record_of(None, [(10, 60.0, "pages")])
    asked(record, "a", 1, label="call", pages=8)
    assert [gate.binds for gate in view(record).gates] == ["10 pages per 60 s"]
    assert view(record, pages=2).gates == ()


def test_a_full_window_is_named_with_the_instant_that_it_opens() -> None:
    record = record_of(None, [(2, 60.0)])
    asked(record, "a", 2)
    found = view(record, now=NOW + 1000)
    (gate,) = found.gates
    assert gate.binds == "2 calls per 60 s"
    assert gate.until == pytest.approx(AT + (found.eta_s or 0))
    assert gate.text == "limit 'api' has used 2 of 2 calls per 60 s, and the next call takes 1"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("cooldown", "cools down after a refusal (level 2)"),
        ("breaker", "cools down after a row of failures (level 2)"),
        ("quota", "is parked, because its quota is used up (level 2)"),
    ],
)
def test_a_cool_down_is_named_with_its_level_and_its_end(kind: str, text: str) -> None:
    record = record_of(5)
    record["cooldown"] |= {"kind": kind, "ends_at": NOW + 8000, "began_at": NOW, "level": 2, "ramp_began_at": -1}
    found = view(record)
    (gate,) = found.gates
    assert (gate.reason, gate.text, gate.until) == (WaitReason(kind), f"limit 'api' {text}", AT + 8)
    assert (found.eta_s, found.cooldown_for_s, found.level) == (8.0, 8.0, 2)


def test_a_ramp_that_gives_nothing_now_says_when_it_gives_more() -> None:
    record = record_of(5)
    record["cooldown"] |= {"kind": "cooldown", "ends_at": NOW, "began_at": NOW - 9000, "level": 1, "ramp_began_at": -1}
    asked(record, "a", 2)
    (gate,) = view(record).gates
    assert (gate.reason, gate.binds, gate.until) == (WaitReason.LIMIT, "ramp", AT + 1)


def test_a_pause_names_its_note_and_how_to_end_it() -> None:
    record = limit_actions.paused(record_of(5), NOW, for_ms=None, note="auth: 401", who="cli:ann")
    found = view(record)
    (gate,) = found.gates
    assert (gate.reason, gate.text) == (
        WaitReason.PAUSED,
        "limit 'api' is paused (auth: 401): `forebay limits resume api`",
    )
    assert (gate.until, gate.paused_by, found.eta_s) == (None, "cli:ann", None)
    timed = view(limit_actions.paused(record_of(5), NOW, for_ms=90_000, note=""))
    assert (timed.gates[0].until, timed.eta_s) == (AT + 90, 90.0)


def test_a_bound_of_0_is_a_pause_that_no_resume_ends() -> None:
    (gate,) = view(record_of(0)).gates
    assert (gate.reason, gate.until) == (WaitReason.PAUSED, None)
    assert "a bound of it is 0" in gate.text


def test_a_store_that_forgot_is_said_to_hold_back() -> None:
    record = record_of(5)
    record["held_back_until"] = NOW + 60_000
    (gate,) = view(record).gates
    assert (gate.reason, gate.binds, gate.until) == (WaitReason.LIMIT, "relearning", AT + 60)


def test_a_call_that_never_fits_is_said_to() -> None:
    found = view(record_of(None, [(10, 60.0, "pages")]), pages=11)
    (gate,) = found.gates
    assert (gate.text, found.eta_s) == ("limit 'api' never fits a call of 1 calls, 11 pages", None)


def test_a_pause_that_ends_this_instant_leaves_the_bound_of_0_to_blame() -> None:
    record = limit_actions.paused(record_of(0), NOW, for_ms=9, note="nightly")
    (gate,) = view(record, now=NOW + 9).gates
    assert (gate.until, gate.note) == (None, "")
    assert "a bound of it is 0" in gate.text
