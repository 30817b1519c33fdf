from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.model.limit_record import WindowLog
from forebay.rules import window_log as logs
from forebay.rules.window_log import MAX_ENTRIES

BOUND = {"n": 5, "per_ms": 1000, "unit": "pages"}
WIDE = 10 * MAX_ENTRIES
"""With steps of 10."""


def log(*items: int) -> WindowLog:
    return {"sum": sum(items[1::2]), "entries": [*items]}


def full(*, every: int = 10) -> WindowLog:
    """As many entries as are kept exactly, one each so many milliseconds."""
    return log(*(number for at in range(MAX_ENTRIES) for number in (at * every, 1)))


def test_a_log_is_named_by_unit_and_length() -> None:
    assert logs.name(BOUND) == "pages/1000"  # type: ignore[arg-type]


def test_a_grant_counts_for_the_window_the_delays_before_arrival_and_one_more() -> None:
    assert logs.width(BOUND, {"start_within_ms": 20, "transit_ms": 3}) == 1024  # type: ignore[arg-type,typeddict-item]


def test_entries_leave_when_their_time_is_over_and_not_a_millisecond_before() -> None:
    kept = log(1, 2, 5, 3, 9, 4)
    logs.expire(kept, 104, 100)
    assert kept == log(5, 3, 9, 4)
    logs.expire(kept, 104, 100)
    assert kept == log(5, 3, 9, 4)
    logs.expire(kept, 109, 100)
    assert kept == log()


def test_what_comes_at_one_instant_is_one_entry() -> None:
    kept = log()
    for now, units in ((5, 1), (5, 2), (6, 1), (7, 0), (7, -3)):
        logs.add(kept, now, units, WIDE)
    assert kept == log(5, 3, 6, 1)


def test_up_to_so_many_entries_nothing_is_joined() -> None:
    kept = log()
    for at in range(MAX_ENTRIES):
        logs.add(kept, at, 1, WIDE)
    assert len(kept["entries"]) == 2 * MAX_ENTRIES


def test_more_entries_are_joined_by_steps_at_their_latest_instants() -> None:
    kept = full(every=5)
    logs.add(kept, 5 * MAX_ENTRIES, 1, WIDE)
    assert kept["sum"] == MAX_ENTRIES + 1
    assert kept["entries"][:6] == [5, 2, 15, 2, 25, 2]
    assert kept["entries"][-2:] == [5 * MAX_ENTRIES, 1]


def test_a_full_log_takes_what_comes_in_its_last_step_without_being_joined_anew() -> None:
    kept = full()
    last = kept["entries"][-2]
    logs.add(kept, last + 9, 4, WIDE)
    assert kept["entries"][-2:] == [last + 9, 5]
    assert len(kept["entries"]) == 2 * MAX_ENTRIES
    assert kept["entries"][0] == 0


def test_a_full_log_is_joined_only_when_a_step_is_over() -> None:
    kept = full(every=5)
    logs.add(kept, 5 * MAX_ENTRIES - 1, 4, WIDE)
    assert kept["entries"][:4] == [0, 1, 5, 1]
    assert kept["entries"][-2:] == [5 * MAX_ENTRIES - 1, 5]


def test_the_units_of_a_step_are_joined_each_with_its_own() -> None:
    kept = log(*(number for at in range(MAX_ENTRIES) for number in (at * 5, at + 1)))
    logs.add(kept, 5 * MAX_ENTRIES, 9, WIDE)
    assert kept["entries"][:6] == [5, 1 + 2, 15, 3 + 4, 25, 5 + 6]
    assert sum(kept["entries"][1::2]) == kept["sum"]


def test_a_full_log_that_cannot_be_joined_grows_by_less_than_it_had() -> None:
    kept = full()
    last = kept["entries"][-2]
    logs.add(kept, last + 10, 1, WIDE)
    assert kept["entries"][-4:] == [last, 1, last + 10, 1]


def test_a_short_window_is_joined_by_single_milliseconds_at_least() -> None:
    kept = full(every=1)
    logs.add(kept, MAX_ENTRIES, 1, 100)
    assert len(kept["entries"]) == 2 * MAX_ENTRIES + 2


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1, max_size=1500),
    st.sampled_from([600, 1024, 5120, 9999]),
)
def test_a_joined_log_never_counts_too_little_nor_much_too_long(steps: list[tuple[int, int]], wide: int) -> None:
    kept, exact, now = log(), [], 0
    for ms, units in steps:
        now += ms
        logs.expire(kept, now, wide)
        logs.add(kept, now, units, wide)
        exact.append((now, units))
        at_least = sum(units for at, units in exact if at + wide > now)
        at_most = sum(units for at, units in exact if at + wide + max(1, wide // MAX_ENTRIES) > now)
        assert at_least <= kept["sum"] <= at_most
        assert kept["sum"] == sum(kept["entries"][1::2])
        assert len(kept["entries"]) <= 4 * MAX_ENTRIES


def test_units_are_taken_back_from_their_own_instant() -> None:
    kept = log(1, 5, 3, 5, 8, 5)
    logs.take_back(kept, 3, 2, 100)
    assert kept == log(1, 5, 3, 3, 8, 5)
    logs.take_back(kept, 3, 2, 100)
    assert kept == log(1, 5, 3, 1, 8, 5)
    logs.take_back(kept, 3, 1, 100)
    assert kept == log(1, 5, 8, 5)
    logs.take_back(kept, 3, 3, 100)
    assert kept == log(1, 5, 8, 5)


def test_units_that_were_joined_with_later_ones_are_taken_from_those_within_a_step_only() -> None:
    kept = log(100, 2, 110, 5, 111, 5)
    logs.take_back(kept, 101, 3, WIDE)
    assert kept == log(100, 2, 110, 2, 111, 5)
    logs.take_back(kept, 101, 9, WIDE)
    assert kept == log(100, 2, 111, 5)
    logs.take_back(kept, 111, 0, WIDE)
    assert kept == log(100, 2, 111, 5)


def test_nothing_more_than_asked_for_is_taken_back() -> None:
    kept = log(100, 2, 105, 5)
    logs.take_back(kept, 100, 2, WIDE)
    assert kept == log(105, 5)


def test_what_will_be_used_at_an_instant_is_what_has_not_expired_by_then() -> None:
    kept = log(1, 2, 5, 3, 9, 4)
    assert [logs.used_at(kept, at, 100) for at in (0, 100, 101, 104, 105, 109, 999)] == [9, 9, 7, 7, 4, 0, 0]
    assert kept == log(1, 2, 5, 3, 9, 4)


def test_units_that_fit_need_not_wait() -> None:
    assert logs.free_in(log(1, 2), 50, 100, 5, 3) == 0
    assert logs.free_in(log(), 50, 100, 5, 5) == 0


def test_units_wait_for_as_many_to_expire_as_they_need() -> None:
    kept = log(1, 2, 5, 3, 9, 1)
    assert [logs.free_in(kept, 50, 100, 6, units) for units in range(1, 7)] == [51, 51, 55, 55, 55, 59]


@given(st.lists(st.integers(0, 99), max_size=6), st.integers(1, 6), st.integers(1, 30))
def test_calls_are_free_when_all_before_them_have_been_let_in(instants: list[int], n: int, units: int) -> None:
    """Found by letting them in one by one."""
    wide, now = 100, 99
    known = sorted(instants)[:n]
    kept = log()
    for at in known:
        logs.add(kept, at, 1, wide)
    line, at = known.copy(), now
    for _ in range(units):
        at = max(at, line[-n] + wide) if len(line) >= n else at
        line.append(at)
    assert logs.free_in(kept, now, wide, n, units) == at - now
