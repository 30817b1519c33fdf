"""Kept places: asked for, told when to come back, kept a slot for, missed, held, let go."""

from __future__ import annotations

from typing import Any

import pytest

from forebay.model.limit_record import Answer, Record
from forebay.rules import admission, kept_places, limit_state
from forebay.rules.cooldown import SECOND
from forebay.rules.kept_places import AFTER, EARLY, KEPT
from tests.unit.rules.limit_builders import NOW, ask_of, record_of, wish

KEEP = 120 * SECOND
LEASE = 15 * SECOND
HELD = 62_050


def asks(record: Record, name: str = "p", *, now: int, holder: str = "h", keep: int = KEEP, **fields: Any) -> Answer:  # noqa: ANN401 - any field
    runs = fields.pop("runs", [wish(**fields.pop("wish", {}))])
    sid = name + kept_places.SUFFIX
    ask = ask_of(sid, 1, runs=runs, keep_ms=keep, holder=holder, place_name=name, **fields)
    return admission.decide(record, ask, now)


def says(record: Record, sid: str, n: int, now: int, **fields: Any) -> Answer:  # noqa: ANN401 - any field
    return admission.decide(record, ask_of(sid, n, **fields), now)


def place_of(record: Record, name: str = "p") -> Any:  # noqa: ANN401 - a part of the record
    return record["sessions"][name + kept_places.SUFFIX].get("place")


def full(**fields: Any) -> Record:  # noqa: ANN401 - any field
    """A limit of one call, which "a" has; calls take 10 s."""
    record = record_of(1, **fields)
    record["mean_call_ms"] = 10 * SECOND
    answer = says(record, "a", 1, NOW, runs=[wish()])
    assert len(answer["grants"]) == 1
    says(record, "a", 2, NOW, confirmed_grant_number=1)
    return record


def gives_back(record: Record, now: int, n: int = 3, **fields: Any) -> Answer:  # noqa: ANN401 - any field
    call = record["sessions"]["a"]["calls"][0]["id"]
    return says(
        record,
        "a",
        n,
        now,
        confirmed_grant_number=9,
        ended_calls=[{"call_id": call, "outcome": "ok", "units": {}}],
        **fields,
    )


def test_a_slot_that_is_free_is_granted_to_the_ask() -> None:
    record = record_of(1)
    answer = asks(record, now=NOW)
    assert [grant["call_count"] for grant in answer["grants"]] == [1]
    assert place_of(record)["holder"] == "h"
    seat = record["sessions"]["p.place"]
    assert seat["ends_at"] == seat["due_at"] == NOW + LEASE


def test_who_waits_is_told_when_to_come_back_and_keeps_the_place() -> None:
    record = full()
    answer = asks(record, now=NOW)
    assert answer["grants"] == []
    assert answer["waits"] == [
        {"ask_again_in_ms": 3 * SECOND, "eta_ms": 10 * SECOND, "ahead_count": 0, "blocked_by": ["in_flight"]}
    ]
    seat = record["sessions"]["p.place"]
    assert (seat["ends_at"], seat["due_at"]) == (NOW + KEEP, AFTER + NOW + 3 * SECOND - EARLY)
    assert answer["session_count"] == 1
    asks(record, "q", now=NOW)
    again = asks(record, now=NOW + 3000)
    assert again["waits"][0]["ahead_count"] == 0
    assert asks(record, "q", now=NOW + 3000)["waits"][0]["ahead_count"] == 1


@pytest.mark.parametrize(
    ("mean", "ahead", "told"), [(0, 0, 3), (0, 2, 5), (1, 0, 1), (1001, 1, 3), (10_000, 1, 20), (60_000, 9, 30)]
)
def test_it_is_told_whole_seconds(mean: int, ahead: int, told: int) -> None:
    record = full()
    record["mean_call_ms"] = mean
    for each in range(ahead):
        asks(record, f"q{each}", now=NOW)
    assert asks(record, now=NOW)["waits"][0]["ask_again_in_ms"] == told * SECOND


def test_who_is_away_is_passed_and_keeps_the_place() -> None:
    record = full()
    asks(record, now=NOW)
    says(record, "b", 1, NOW, runs=[wish()])
    answer = gives_back(record, NOW + 3000 - EARLY - 1)
    assert answer["woken_session_ids"] == ["b"]
    assert asks(record, now=NOW + 3000)["waits"][0]["ahead_count"] == 0


def test_around_the_instant_that_it_was_told_a_slot_is_kept_for_it() -> None:
    record = full()
    asks(record, now=NOW)
    says(record, "b", 1, NOW, runs=[wish()])
    assert gives_back(record, NOW + 3000 - EARLY)["woken_session_ids"] == ["p.place"]
    answer = asks(record, now=NOW + 3000)
    assert [grant["granted_at"] for grant in answer["grants"]] == [NOW + 3000]
    assert record["sessions"]["p.place"]["calls"][0]["call_until"] == NOW + 3000 + HELD
    assert place_of(record)["holder"] == "h"


def missed(record: Record, now: int) -> int:
    """The place is told, its slot is kept and it does not come; the instant when that is over."""
    told = asks(record, now=now)["waits"][0]["ask_again_in_ms"]
    came_free = now + told
    assert gives_back(record, came_free, n=99)["woken_session_ids"] == ["p.place"]
    over = now + told - EARLY + KEPT
    assert says(record, "a", 99, over - 1)["in_flight_count"] == 1
    return over


def refill(record: Record, now: int) -> None:
    """The session "a" takes what is free, before others can."""
    record["sessions"]["a"]["runs"] = []
    says(record, "a", 100, now, confirmed_grant_number=9, runs=[wish(count=1, front=1, run=now)])
    says(record, "a", 101, now, confirmed_grant_number=99)
    record["sessions"]["a"]["request_number"] = 3


def test_a_slot_that_is_kept_in_vain_goes_to_the_next_after_two_seconds() -> None:
    record = full()
    over = missed(record, NOW)
    says(record, "b", 1, over - 1, runs=[wish()])
    assert len(says(record, "b", 2, over, confirmed_grant_number=0, runs=[wish()])["grants"]) == 1
    assert place_of(record)["missed_count"] == 1
    assert asks(record, now=over + 1)["waits"][0]["ahead_count"] == 0


def test_who_has_missed_once_keeps_the_place_and_who_has_missed_twice_goes_to_the_end() -> None:
    record = full()
    over = missed(record, NOW)
    refill(record, over)
    asks(record, "q", now=over)
    assert place_of(record)["missed_count"] == 1
    over = missed(record, over)
    refill(record, over)
    assert place_of(record)["missed_count"] == 0
    assert asks(record, "q", now=over)["waits"][0]["ahead_count"] == 0
    assert asks(record, now=over)["waits"][0]["ahead_count"] == 1


def test_a_place_whose_turn_has_not_come_misses_nothing() -> None:
    record = full()
    asks(record, now=NOW)
    for at in range(0, 10_000, 100):
        says(record, "a", 3, NOW + at)
    assert place_of(record)["missed_count"] == 0
    assert record["sessions"]["p.place"]["due_at"] == AFTER + NOW + KEEP


def test_a_place_that_nobody_asks_for_ends_and_holds_up_nobody() -> None:
    record = full()
    asks(record, now=NOW)
    says(record, "a", 3, NOW + KEEP - 1)
    assert "p.place" in record["sessions"]
    says(record, "a", 4, NOW + KEEP)
    assert "p.place" not in record["sessions"]
    assert record["tails"] == {}


def test_where_the_line_was_empty_meanwhile_the_place_is_before_newcomers() -> None:
    record = full()
    record["virtual_time"] = 5000
    asks(record, now=NOW)
    assert place_of(record)["virtual_start"] == 5000
    over = missed(record, NOW)
    assert record["virtual_time"] == 0
    asks(record, "q", now=over - 1)
    refill(record, over)
    assert asks(record, "q", now=over)["waits"][0]["ahead_count"] == 1


def test_a_doubled_delivery_neither_runs_nor_releases() -> None:
    record = record_of(1)
    asks(record, now=NOW, holder="first")
    call = record["sessions"]["p.place"]["calls"][0]["id"]
    assert asks(record, now=NOW + 1, holder="second")["status"] == "held"
    done = [{"call_id": call, "outcome": "ok", "units": {}}]
    for holder in ("second", ""):
        for n in (0, 2):
            assert says(record, "p.place", n, NOW + 2, ended_calls=done, holder=holder)["status"] == "late"
        assert says(record, "p.place", 0, NOW + 2, holder=holder)["status"] == "late"
    assert record["sessions"]["p.place"]["ends_at"] == NOW + LEASE
    assert says(record, "p.place", 2, NOW + 2, ended_calls=done, holder="first")["in_flight_count"] == 0


def test_the_same_ask_again_brings_the_same_slot() -> None:
    record = record_of(1)
    first = asks(record, now=NOW)["grants"]
    assert asks(record, now=NOW + 9)["grants"] == first
    says(record, "p.place", 0, NOW + 10, confirmed_grant_number=first[0]["number"], holder="h")
    assert asks(record, now=NOW + 11)["grants"] == first
    assert record["sessions"]["p.place"]["ends_at"] == NOW + 11 + LEASE


def test_a_place_whose_slot_was_given_back_begins_at_the_end() -> None:
    record = record_of(1)
    asks(record, now=NOW, holder="first")
    seat = record["sessions"]["p.place"]
    call = seat["calls"][0]["id"]
    says(record, "p.place", 2, NOW + 1, ended_calls=[{"call_id": call, "outcome": "ok", "units": {}}], holder="first")
    answer = asks(record, now=NOW + 1, holder="second")
    assert len(answer["grants"]) == 1
    assert answer["grants"][0]["first_call_id"] > call
    assert says(record, "p.place", 3, NOW + 2, holder="first")["status"] == "late"


def test_the_call_of_an_owner_that_died_counts_and_the_place_can_be_asked_for_again() -> None:
    record = record_of(2)
    asks(record, now=NOW, holder="first")
    assert asks(record, now=NOW + LEASE - 1, holder="second")["status"] == "held"
    answer = asks(record, now=NOW + LEASE, holder="second")
    assert len(answer["grants"]) == 1
    assert answer["in_flight_count"] == 2
    assert len(record["sessions"]["p.place:cut_off"]["calls"]) == 1
    assert says(record, "a", 1, NOW + HELD)["in_flight_count"] == 1


def test_who_wants_something_else_begins_at_the_end() -> None:
    record = full(windows=[(100, 60.0, "pages")])
    asks(record, now=NOW)
    asks(record, "q", now=NOW)
    assert asks(record, now=NOW, wish={"units": {"pages": 3}})["waits"][0]["ahead_count"] == 1
    assert sum(tail["run_count"] for tail in record["tails"].values()) == 2


def test_who_leaves_is_gone_also_if_a_slot_is_kept() -> None:
    record = full()
    asks(record, now=NOW)
    asks(record, now=NOW, runs=[])
    assert "p.place" not in record["sessions"]
    asks(record, now=NOW)
    gives_back(record, NOW + 3000)
    assert asks(record, now=NOW + 3000, runs=[])["in_flight_count"] == 0
    assert "p.place" not in record["sessions"]
    assert record["tails"] == {}


def test_a_kept_slot_is_not_granted_while_the_limit_is_closed() -> None:
    record = full()
    asks(record, now=NOW)
    gives_back(record, NOW + 3000)
    record["paused_until"] = 0
    answer = asks(record, now=NOW + 3000)
    assert answer["grants"] == []
    assert answer["in_flight_count"] == 0
    assert answer["waits"][0]["ask_again_in_ms"] == 30 * SECOND
    assert record["sessions"]["p.place"]["runs"][0]["virtual_start"] == 0


def test_a_kept_slot_that_does_not_count_any_more_is_granted_anew() -> None:
    record = record_of(None, [(1, 1.0)])
    says(record, "a", 1, NOW, runs=[wish()])
    says(record, "a", 2, NOW, confirmed_grant_number=1)
    assert asks(record, now=NOW)["waits"][0]["ask_again_in_ms"] == 2 * SECOND
    assert says(record, "a", 3, NOW + 1501)["woken_session_ids"] == ["p.place"]
    answer = asks(record, now=NOW + 1501 + 1301)
    assert [grant["granted_at"] for grant in answer["grants"]] == [NOW + 2802]
    assert answer["window_sums"] == [1]


def test_a_step_looks_at_eight_places() -> None:
    record = full()
    for each in range(10):
        asks(record, f"q{each}", now=NOW)
    later = NOW + KEEP
    answer = says(record, "a", 3, later)
    assert answer["has_more"] == 1
    assert sum("place" in seat for seat in record["sessions"].values()) == 2
    assert says(record, "a", 4, later)["has_more"] == 0
    assert [*record["sessions"]] == ["a"]


def test_whoever_waits_asks_when_a_kept_slot_may_be_free_again_but_once_a_second_at_most() -> None:
    record = full()
    asks(record, now=NOW)
    gives_back(record, NOW + 2900)
    answer = says(record, "b", 1, NOW + 2950, runs=[wish()])
    assert answer["waits"][0]["ask_again_in_ms"] == 3000 - EARLY + KEPT - 2950
    again = says(record, "b", 2, NOW + 4000, runs=[wish()])["waits"][0]["ask_again_in_ms"]
    assert again == SECOND


def test_after_a_loss_a_kept_slot_is_forgotten_with_its_place() -> None:
    record = full()
    asks(record, now=NOW)
    asks(record, "q", now=NOW)
    gives_back(record, NOW + 3000)
    says(record, "b", 1, NOW + 3001, seen_version=999)
    assert limit_state.in_flight(record) == 0
    says(record, "b", 2, NOW + 9000)
    assert [*record["sessions"]] == ["a", "q.place", "b"]


def test_a_place_that_is_too_large_for_the_line_holds_up_nobody() -> None:
    record = full(windows=[(10, 60.0, "pages")])
    answer = asks(record, now=NOW, wish={"units": {"pages": 11}})
    assert answer["waits"][0]["blocked_by"] == ["too_large"]
    says(record, "b", 1, NOW, runs=[wish()])
    assert gives_back(record, NOW + 10_000)["woken_session_ids"] == ["b"]
