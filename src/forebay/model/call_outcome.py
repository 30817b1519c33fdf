"""What became of one call to a provider, as a limit and a task need to know it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["ok", "throttled", "failed", "quota", "unsent", "cut_off", "abandoned"]


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What became of a call.

    - ok: the provider answered and is well, also with a 404;
    - throttled: it refused the call with "not now";
    - quota: a quota of a day or a month is used up;
    - failed: it answered 5xx or closed the connection; the call is over;
    - unsent: nothing reached the provider, so that nothing counts;
    - cut_off: nobody waited for the answer, and the provider may still work on the call;
    - abandoned: nothing can be told about the provider.

    `error_class` is what the same means for a task; None is a success. `blames_provider`: the breaker counts it.
    """

    kind: Kind
    retry_after_s: float | None = None
    status: int | None = None
    error_class: str | None = None
    blames_provider: bool = False
