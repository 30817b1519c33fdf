from __future__ import annotations

import pytest

from forebay.model.limit_record import ProviderRefusal, Record
from forebay.rules import cooldown
from tests.unit.rules.limit_builders import NOW, limit_terms, record_of

TERMS = limit_terms(100, cooldown_s=(2, 4, 8), max_cooldown_s=60, breaker_after=3)


def hint(wait: int = -1, *, at: int = NOW, kind: str = "cooldown", jitter: int = 0) -> ProviderRefusal:
    return {"kind": kind, "granted_at": at, "wait_ms": wait, "jitter_permille": jitter}


def cooling(**fields: object) -> Record:
    record = record_of()
    record["cooldown"] = cooldown.none() | fields  # type: ignore[typeddict-item]
    return record


def test_a_new_limit_has_never_rested() -> None:
    assert cooldown.none() == cooling()["cooldown"]
    assert {*cooldown.none().values()} == {"", 0}


@pytest.mark.parametrize(("level", "rest"), [(1, 2000), (2, 4000), (3, 8000), (4, 8000), (99, 8000)])
def test_each_level_has_its_step_and_the_last_stays(level: int, rest: int) -> None:
    assert cooldown.step(TERMS, level) == rest


def test_a_refusal_begins_a_rest_with_everything_that_belongs_to_it() -> None:
    record = cooling(failure_count=2)
    cooldown.throttle(record, TERMS, hint(), NOW + 5)
    assert record["cooldown"] == {
        "kind": "cooldown",
        "ends_at": NOW + 2005,
        "began_at": NOW + 5,
        "level": 1,
        "ramp_began_at": -1,
        "ramp_second": 0,
        "ramp_grant_count": 0,
        "failure_count": 0,
    }


def test_a_call_granted_at_the_instant_that_a_rest_began_is_an_old_one() -> None:
    record = cooling(began_at=NOW, ends_at=NOW + 9, kind="cooldown", level=1)
    cooldown.throttle(record, TERMS, hint(at=NOW), NOW + 1)
    assert (record["cooldown"]["level"], record["cooldown"]["ends_at"]) == (1, NOW + 9)
    cooldown.throttle(record, TERMS, hint(at=NOW + 1), NOW + 1)
    assert (record["cooldown"]["level"], record["cooldown"]["ends_at"]) == (2, NOW + 4001)


@pytest.mark.parametrize(
    ("wait", "jitter", "rest"),
    [
        (0, 0, 0),
        (0, 900, 0),
        (1000, 0, 1000),
        (1000, 250, 1250),
        (999, 1, 999),
        (60_000, 500, 60_000),
        (90_000, 0, 60_000),
    ],
)
def test_a_hint_says_how_long_within_the_longest(wait: int, jitter: int, rest: int) -> None:
    record = cooling()
    cooldown.throttle(record, TERMS, hint(wait, jitter=jitter), NOW)
    assert record["cooldown"]["ends_at"] == NOW + rest


def test_a_step_longer_than_the_longest_is_cut() -> None:
    record = cooling()
    cooldown.throttle(record, limit_terms(cooldown_s=(90,), max_cooldown_s=60), hint(), NOW)
    assert record["cooldown"]["ends_at"] == NOW + 60_000


def test_an_old_call_that_knows_better_makes_a_rest_longer_and_nothing_else() -> None:
    record = cooling(began_at=NOW, ends_at=NOW + 5000, kind="quota", level=1, ramp_began_at=-1)
    cooldown.throttle(record, TERMS, hint(4999, at=NOW), NOW + 1)
    assert record["cooldown"]["ends_at"] == NOW + 5000
    cooldown.throttle(record, TERMS, hint(5000, at=NOW), NOW + 1)
    assert (
        record["cooldown"]
        == cooling(began_at=NOW, ends_at=NOW + 5001, kind="quota", level=1, ramp_began_at=-1)["cooldown"]
    )
    cooldown.throttle(record, TERMS, hint(90_000, at=NOW), NOW + 1)
    assert record["cooldown"]["ends_at"] == NOW + 60_001


@pytest.mark.parametrize(("now", "kind"), [(NOW + 4, "breaker"), (NOW + 5, "cooldown"), (NOW + 6, "cooldown")])
def test_an_old_call_that_is_refused_after_the_rest_begins_one_with_a_probe(now: int, kind: str) -> None:
    record = cooling(began_at=NOW, ends_at=NOW + 5, kind="breaker", level=1, ramp_began_at=NOW + 5)
    cooldown.throttle(record, TERMS, hint(100, at=NOW), now)
    assert (
        record["cooldown"] == cooling(began_at=NOW, ends_at=now + 100, kind=kind, level=1, ramp_began_at=-1)["cooldown"]
    )


def test_an_old_call_that_knows_no_later_end_does_not_stop_the_ramp() -> None:
    record = cooling(began_at=NOW - 9, ends_at=NOW, kind="breaker", level=1, ramp_began_at=NOW)
    cooldown.throttle(record, TERMS, hint(0, at=NOW - 9), NOW)
    assert (
        record["cooldown"]
        == cooling(began_at=NOW - 9, ends_at=NOW, kind="breaker", level=1, ramp_began_at=NOW)["cooldown"]
    )


def test_a_quota_parks_for_as_long_as_it_says_or_else_for_the_longest() -> None:
    record = cooling()
    cooldown.throttle(record, TERMS, hint(kind="quota"), NOW)
    assert record["cooldown"]["ends_at"] == NOW + 60_000
    cooldown.throttle(record, TERMS, hint(0, kind="quota", at=0), NOW + 1)
    assert record["cooldown"]["ends_at"] == NOW + 60_000
    cooldown.throttle(record, TERMS, hint(9_000_000, kind="quota", at=0), NOW + 1)
    assert (record["cooldown"]["ends_at"], record["cooldown"]["level"]) == (NOW + 9_000_001, 0)


def test_a_quota_of_no_time_at_all_is_over_at_once() -> None:
    record = cooling()
    cooldown.throttle(record, TERMS, hint(0, kind="quota"), NOW)
    assert record["cooldown"]["ends_at"] == NOW


@pytest.mark.parametrize(("until", "kind"), [(NOW + 2001, "quota"), (NOW + 2000, "cooldown"), (NOW + 1, "cooldown")])
def test_a_refusal_while_parked_by_a_quota_takes_its_name_only_if_it_lasts_as_long(until: int, kind: str) -> None:
    record = cooling(kind="quota", ends_at=until, began_at=NOW - 9)
    cooldown.throttle(record, TERMS, hint(), NOW)
    assert (record["cooldown"]["kind"], record["cooldown"]["ends_at"]) == (kind, max(until, NOW + 2000))


def test_the_name_of_any_other_rest_is_that_of_the_latest() -> None:
    record = cooling(kind="cooldown", ends_at=NOW + 90_000, began_at=NOW - 9)
    for _ in range(3):
        cooldown.ended(record, TERMS, "failed", NOW, NOW)
    assert (record["cooldown"]["kind"], record["cooldown"]["ends_at"]) == ("breaker", NOW + 90_000)


def test_failures_in_a_row_open_the_breaker_at_the_number_and_not_before() -> None:
    record = cooling()
    for _ in range(2):
        cooldown.ended(record, TERMS, "failed", NOW, NOW)
    assert (record["cooldown"]["failure_count"], record["cooldown"]["kind"]) == (2, "")
    cooldown.ended(record, TERMS, "failed", NOW, NOW + 7)
    assert (
        record["cooldown"]
        == cooling(kind="breaker", ends_at=NOW + 2007, began_at=NOW + 7, level=1, ramp_began_at=-1)["cooldown"]
    )


def test_a_success_ends_the_row_and_the_level_an_unknown_end_does_nothing() -> None:
    record = cooling(failure_count=2, level=4, began_at=NOW)
    cooldown.ended(record, TERMS, "", NOW + 1, NOW + 2)
    cooldown.ended(record, TERMS, "ok", NOW, NOW + 2)
    cooldown.ended(record, TERMS, "failed", NOW, NOW + 2)
    assert (record["cooldown"]["failure_count"], record["cooldown"]["level"]) == (2, 4)
    cooldown.ended(record, TERMS, "ok", NOW + 1, NOW + 2)
    assert (record["cooldown"]["failure_count"], record["cooldown"]["level"]) == (0, 0)


def test_a_breaker_of_nought_never_opens() -> None:
    record = cooling()
    for _ in range(9):
        cooldown.ended(record, limit_terms(breaker_after=0), "failed", NOW, NOW)
    assert record["cooldown"]["kind"] == ""


def test_lifting_ends_all_but_remembers_when_it_began() -> None:
    record = cooling(
        kind="quota",
        ends_at=NOW + 9,
        began_at=NOW,
        level=3,
        ramp_began_at=-1,
        ramp_second=1,
        ramp_grant_count=2,
        failure_count=1,
    )
    cooldown.lift(record)
    assert record["cooldown"] == cooling(began_at=NOW)["cooldown"]


def granted_at(record: Record, now: int, most: int = 50) -> int:
    """How many are let in at an instant."""
    count = 0
    while count < most and cooldown.room(record, TERMS, now) > 0:
        cooldown.granted(record, now)
        count += 1
    return count


def test_without_a_ramp_there_is_room_for_any() -> None:
    record = cooling()
    assert cooldown.room(record, TERMS, NOW) == cooldown.room(record, TERMS, 5) == cooldown.MANY
    cooldown.granted(record, NOW)
    assert record["cooldown"] == cooling()["cooldown"]


def test_the_ramp_begins_with_its_probe_and_doubles_each_second() -> None:
    record = cooling(ramp_began_at=-1, ramp_second=7, ramp_grant_count=9)
    assert cooldown.room(record, TERMS, NOW) == 1
    assert granted_at(record, NOW) == 1
    assert record["cooldown"]["ramp_began_at"] == NOW
    assert granted_at(record, NOW + 999) == 0
    assert granted_at(record, NOW + 1000) == 2
    assert granted_at(record, NOW + 1999) == 0
    assert [granted_at(record, NOW + second * 1000) for second in range(2, 7)] == [4, 8, 16, 32, 50]
    assert record["cooldown"]["ramp_began_at"] > 0
    assert granted_at(record, NOW + 7000) == 50
    assert record["cooldown"]["ramp_began_at"] == 0


def test_what_a_second_of_the_ramp_has_left_is_for_that_second_only() -> None:
    record = cooling(ramp_began_at=NOW, ramp_second=2, ramp_grant_count=1)
    assert cooldown.room(record, TERMS, NOW + 2000) == 3
    assert cooldown.room(record, TERMS, NOW + 3000) == 8
    cooldown.granted(record, NOW + 3000)
    assert cooldown.room(record, TERMS, NOW + 3999) == 7


@pytest.mark.parametrize(
    ("in_flight", "windows", "full"),
    [(4, [], 2), (5, [], 3), (None, [(8, 60)], 3), (100, [(2, 1), (50, 60)], 1), (None, [(1, 60, "pages")], 20)],
)
def test_the_ramp_ends_where_it_would_bound_nothing_more(
    in_flight: int | None, windows: list[tuple[int, int]], full: int
) -> None:
    terms = limit_terms(in_flight, windows)
    record = cooling(ramp_began_at=NOW)
    assert cooldown.room(record, terms, NOW + full * 1000 - 1) == 1 << (full - 1)
    assert record["cooldown"]["ramp_began_at"] == NOW
    assert cooldown.room(record, terms, NOW + full * 1000) == cooldown.MANY
    assert record["cooldown"]["ramp_began_at"] == 0


@pytest.mark.parametrize(("ms", "wait"), [(0, 1000), (1, 999), (999, 1), (1000, 1000), (2500, 500)])
def test_the_ramp_goes_on_with_the_next_second(ms: int, wait: int) -> None:
    assert cooldown.next_room_at(cooling(ramp_began_at=NOW), NOW + ms) == NOW + ms + wait


def test_a_bound_of_0_lets_nobody_in_so_no_ramp_is_needed_behind_it() -> None:
    record = cooling(ramp_began_at=NOW)
    assert cooldown.room(record, limit_terms(0), NOW) == cooldown.MANY
    assert record["cooldown"]["ramp_began_at"] == 0
