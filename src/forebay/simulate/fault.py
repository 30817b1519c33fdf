"""One way to misbehave, as it is spelled in files, flags and the header x-simulate: `429 form=date after=3`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from forebay.errors import BadInput
from forebay.ids import shown

FORMS: Final = ("seconds", "date", "ms", "info", "none", "nonsense")
"""How a 429 says when to come again; `info` is Google's RetryInfo."""

REFUSING: Final = ("429", "quota", "401", "500", "502", "503", "504")
"""Answered at once and in place of the work; `quota` is the 429 that lasts until the month turns."""

DELIVERY: Final = ("hang", "drip", "truncate", "cut", "garbage", "html", "bomb", "redirect", "reset")
"""What becomes of the answer after the work was done, and paid."""

SPECIAL: Final = ("ok", "slow", "failed", "bad_pdf", "refusal", "length", "content_filter")
"""`ok` overrules other faults; the last ones are answers that only some APIs give."""


@dataclass(frozen=True)
class Fault:
    """`after` is when a 429 says to come again, `s` how long something lasts."""

    kind: str
    form: str | None = None
    after: float = 1.0
    s: float | None = None

    @property
    def refuses(self) -> bool:
        return self.kind in REFUSING

    def __str__(self) -> str:
        parts = [self.kind]
        if self.form is not None:
            parts.append(f"form={self.form}")
        if self.after != 1.0:
            parts.append(f"after={self.after:g}")
        if self.s is not None:
            parts.append(f"s={self.s:g}")
        return " ".join(parts)

    @classmethod
    def read(cls, text: str) -> Fault:
        kind, *options = text.split()[:5] or [""]
        if kind not in (*REFUSING, *DELIVERY, *SPECIAL):
            raise BadFault(f"{shown(text)} is not a fault.", remedy=f"There are {', '.join(known())}.")
        given = dict(each.partition("=")[::2] for each in options)
        form = given.pop("form", None)
        if form is not None and form not in FORMS:
            raise BadFault(f"{shown(form)} is not a form of a 429.", remedy=f"There are {', '.join(FORMS)}.")
        after, seconds = given.pop("after", "1"), given.pop("s", None)
        if given:
            raise BadFault(f"{shown(text)}: a fault has form, after and s.")
        return cls(kind, form, _number(after), None if seconds is None else max(_number(seconds), 0.0))


class BadFault(BadInput, ValueError):
    """A value error too, so that settings say where it stands."""


def known() -> tuple[str, ...]:
    return (*REFUSING, *DELIVERY, *SPECIAL)


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise BadFault(f"{shown(text)} is not a number of seconds.")
    return found
