from datetime import UTC, datetime

import pytest

from forebay.errors import BadInput
from forebay.model.budget import Budget, Period, parse
from forebay.rules import budgets


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("period", "now", "began", "ends"),
    [
        (Period.DAY, at(2026, 3, 1, 13, 5), at(2026, 3, 1), at(2026, 3, 2)),
        (Period.DAY, at(2026, 12, 31), at(2026, 12, 31), at(2027, 1, 1)),
        (Period.MONTH, at(2026, 3, 31, 23, 59), at(2026, 3, 1), at(2026, 4, 1)),
        (Period.MONTH, at(2026, 12, 5), at(2026, 12, 1), at(2027, 1, 1)),
        (Period.MONTH, at(2028, 2, 29), at(2028, 2, 1), at(2028, 3, 1)),
    ],
)
def test_periods_are_those_of_the_calendar(period: Period, now: float, began: float, ends: float) -> None:
    assert (budgets.began_at(period, now), budgets.ends_at(period, now)) == (began, ends)


def test_a_budget_is_written_in_short() -> None:
    assert parse("pages=1000/day") == Budget(unit="pages", most=1000, per=Period.DAY)
    assert parse(" docai:usd=2.5/month ") == Budget(unit="usd", most=2.5, per=Period.MONTH, processor="docai")


@pytest.mark.parametrize(
    "text", ["", "pages", "pages=x/day", "pages=1.2.3/day", "pages=10/week", "PAGES=1/day", "a:b:pages=1/day"]
)
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse(text)


def test_a_call_that_fits_exactly_may_go_and_the_next_may_not() -> None:
    pages = Budget(unit="pages", most=100)
    now = at(2026, 3, 1, 12)
    assert budgets.exhausted([pages], {pages: 80.0}, {"pages": 20.0}, now) is None
    over = budgets.exhausted([pages], {pages: 81.0}, {"pages": 20.0}, now)
    assert over is not None
    assert (over.until, str(over)) == (at(2026, 3, 2), "the budget of 100 pages a day is used up")


def test_a_budget_is_looked_at_again_before_its_end_since_somebody_may_have_raised_it() -> None:
    over = budgets.Exhausted(Budget(unit="pages", most=1), at(2026, 3, 2))
    assert over.look_again_at(at(2026, 3, 1, 12)) == at(2026, 3, 1, 12, 10)
    assert over.look_again_at(at(2026, 3, 1, 23, 59)) == at(2026, 3, 2)


def test_of_several_budgets_the_one_that_ends_last_holds_a_call_back() -> None:
    day, month = Budget(unit="pages", most=1), Budget(unit="calls", most=1, per=Period.MONTH, processor="docai")
    over = budgets.exhausted([day, month], {day: 1.0, month: 1.0}, {"pages": 1.0, "calls": 1.0}, at(2026, 3, 5))
    assert over is not None
    assert over.until == at(2026, 4, 1)


def test_money_is_known_after_the_call_so_the_call_after_the_last_is_stopped() -> None:
    money = Budget(unit="usd", most=10)
    assert budgets.exhausted([money], {money: 9.99}, {"pages": 1.0}, 0.0) is None
    assert budgets.exhausted([money], {money: 10.0}, {"pages": 1.0}, 0.0) is not None


def test_only_the_budgets_of_processor_and_tenant_apply() -> None:
    every = Budget(unit="pages", most=1)
    docai = Budget(unit="pages", most=1, processor="docai")
    acme = Budget(unit="pages", most=1, tenant="acme")
    assert budgets.applying([every, docai, acme], "docai", "default") == [every, docai]
    assert budgets.applying([every, docai, acme], "local", "acme") == [every, acme]


def test_an_attempt_that_a_budget_held_back_is_known_by_its_text() -> None:
    over = budgets.Exhausted(Budget(unit="pages", most=1, processor="docai"), 0.0)
    assert budgets.is_held_back(str(over))
    assert not any(map(budgets.is_held_back, [None, "", "429", f"{over}, says the provider", f"Since {over}"]))
