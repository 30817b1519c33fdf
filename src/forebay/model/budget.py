"""A bound on what a processor may use in a day or a month."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from forebay.errors import BadInput
from forebay.ids import shown
from forebay.model.names import check_amount, check_name

_WRITTEN = re.compile(r"(?:(?P<processor>[^:=]+):)?(?P<unit>[^:=]+)=(?P<most>[0-9]+(?:\.[0-9]+)?)/(?P<per>day|month)")


class Period(StrEnum):
    """By the calendar, in UTC."""

    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Without a processor it is one for each of them by itself, without a tenant one for all of them together."""

    unit: str
    most: float
    per: Period = Period.DAY
    processor: str | None = None
    tenant: str | None = None

    def __post_init__(self) -> None:
        check_name("unit", self.unit)
        check_amount("budget", self.most)
        object.__setattr__(self, "per", Period(self.per))
        for what, name in (("processor", self.processor), ("tenant", self.tenant)):
            if name is not None:
                check_name(what, name)

    def __str__(self) -> str:
        return f"{self.most:g} {self.unit} a {self.per}"


def parse(text: str) -> Budget:
    """As it is written in settings: `pages=1000/day`, or `docai:calls=500/month` for one processor."""
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"{shown(text)} is not a budget.", remedy="Write pages=1000/day, or docai:calls=500/month.")
    return Budget(unit=match["unit"], most=float(match["most"]), per=Period(match["per"]), processor=match["processor"])
