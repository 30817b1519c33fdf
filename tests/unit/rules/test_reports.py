from __future__ import annotations

import pytest

from forebay.model.limit_record import Record
from forebay.rules import reports
from tests.unit.rules.limit_builders import NOW, limit_terms, record_of

TERMS = limit_terms()
MINUTE = 60_000


def failing(record: Record, tenant: str, *instants: int) -> list[int | None]:
    return [reports.failed(record, TERMS, tenant, at) for at in instants]


def test_a_refusal_cools_its_tenant_down_and_a_second_tenant_confirms_it() -> None:
    record = record_of()
    assert reports.report(record, TERMS, "ann", 5_000, NOW) is None
    assert (reports.left(record, "ann", NOW + 1_000), reports.left(record, "bob", NOW)) == (4_000, 0)
    assert reports.report(record, TERMS, "ann", MINUTE, NOW) is None
    assert reports.report(record, TERMS, "bob", MINUTE, NOW + 1) == reports.MOST
    assert reports.left(record, "ann", NOW) == reports.MOST


def test_a_refusal_that_names_no_pause_takes_the_first_step() -> None:
    record = record_of()
    assert reports.report(record, TERMS, "ann", 0, NOW) is None
    assert reports.left(record, "ann", NOW) == TERMS["cooldown_steps_ms"][0]
    assert reports.report(record, TERMS, "bob", -1, NOW) == TERMS["cooldown_steps_ms"][0]


def test_failures_in_a_row_cool_their_tenant_down_longer_with_each() -> None:
    record = record_of()
    assert failing(record, "ann", NOW, NOW) == [None, None]
    assert (reports.left(record, "ann", NOW), reports.in_a_row(record, "ann")) == (0, 2)
    left = []
    for _ in range(6):
        assert failing(record, "ann", NOW) == [None]
        left.append(reports.left(record, "ann", NOW))
    assert left == [2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
    assert reports.left(record, "bob", NOW) == 0


def test_a_call_that_worked_ends_the_row() -> None:
    record = record_of()
    failing(record, "ann", NOW, NOW)
    reports.worked(record, "ann")
    assert reports.in_a_row(record, "ann") == 0
    failing(record, "ann", NOW, NOW)
    assert reports.left(record, "ann", NOW) == 0


def test_failures_count_for_a_minute() -> None:
    record = record_of()
    failing(record, "ann", NOW, NOW, NOW + MINUTE)
    assert (reports.left(record, "ann", NOW + MINUTE), reports.in_a_row(record, "ann")) == (0, 1)


def test_failures_of_slow_calls_are_a_row_too() -> None:
    record = record_of()
    second, third = NOW + MINUTE // 2, NOW + MINUTE + 1
    assert failing(record, "ann", NOW, second, third) == [None, None, None]
    assert (reports.left(record, "ann", third), reports.in_a_row(record, "ann")) == (2_000, 3)


def test_a_second_tenant_confirms_only_when_its_own_row_is_long_enough() -> None:
    record = record_of()
    failing(record, "ann", NOW, NOW, NOW)
    assert failing(record, "bob", NOW, NOW, NOW) == [None, None, 2_000]


@pytest.mark.parametrize("first", [1, 2])
def test_a_row_that_is_too_short_confirms_nothing(first: int) -> None:
    record = record_of()
    failing(record, "ann", *[NOW] * first)
    assert failing(record, "bob", NOW, NOW, NOW) == [None, None, None]
    assert reports.report(record, TERMS, "cid", 1_000, NOW) == 1_000  # bob says so


def test_the_last_call_of_all_others_confirms_failures_but_no_refusal() -> None:
    record = record_of()
    record["cooldown"]["failure_count"] = 1
    assert failing(record, "ann", NOW, NOW, NOW) == [None, None, 2_000]
    assert reports.report(record, TERMS, "ann", 1_000, NOW) is None


def test_without_a_breaker_failures_cool_nobody_down() -> None:
    record, terms = record_of(), limit_terms(breaker_after=0)
    assert [reports.failed(record, terms, "ann", NOW) for _ in range(10)] == [None] * 10
    assert reports.left(record, "ann", NOW) == 0


def test_every_report_is_a_new_version_of_the_record() -> None:
    record = record_of()
    reports.failed(record, TERMS, "ann", NOW)
    assert record["version"] == 1
    reports.worked(record, "ann")
    assert record["version"] == 2
    reports.report(record, TERMS, "ann", 1, NOW)
    assert record["version"] == 3
