"""Decides whether a call still fits into the budgets of its processor, and when the next one begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from forebay.model.budget import Budget, Period

_MONTHS = 12
_LOOK_AGAIN_S = 600.0
_BEGINNING, _END = "the budget of ", " is used up"


@dataclass(frozen=True, slots=True)
class Exhausted:
    """A budget that a call does not fit into any more, and until when."""

    budget: Budget
    until: float

    def __str__(self) -> str:
        whose = f" of {self.budget.processor}" if self.budget.processor else ""
        return f"{_BEGINNING}{self.budget}{whose}{_END}"

    def look_again_at(self, now: float) -> float:
        """Before its end, too: somebody may have raised it."""
        return min(self.until, now + _LOOK_AGAIN_S)


def is_held_back(text: str | None) -> bool:
    """Whether an attempt ended with what is said of a budget that is used up."""
    return text is not None and text.startswith(_BEGINNING) and text.endswith(_END)


def began_at(period: Period, now: float) -> float:
    """When the present day or month began, in UTC."""
    day = _day(now)
    return (day if period is Period.DAY else day.replace(day=1)).timestamp()


def ends_at(period: Period, now: float) -> float:
    day = _day(now)
    if period is Period.DAY:
        return (day + timedelta(days=1)).timestamp()
    year, month = divmod(day.year * _MONTHS + day.month, _MONTHS)
    return day.replace(year=year, month=month + 1, day=1).timestamp()


def _day(now: float) -> datetime:
    return datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def applying(budgets: Iterable[Budget], processor: str, tenant: str) -> list[Budget]:
    return [each for each in budgets if each.processor in {None, processor} and each.tenant in {None, tenant}]


def exhausted(
    budgets: Iterable[Budget], used: Mapping[Budget, float], takes: Mapping[str, float], now: float
) -> Exhausted | None:
    """The budget that holds a call back the longest; `takes` is what it would use, by unit.

    A unit that is known only after the call, such as money, stops the calls that come once it is used up.
    """
    over = [
        Exhausted(each, ends_at(each.per, now))
        for each in budgets
        if used[each] + takes.get(each.unit, 0.0) > each.most or (each.unit not in takes and used[each] >= each.most)
    ]
    return max(over, key=lambda each: each.until, default=None)
