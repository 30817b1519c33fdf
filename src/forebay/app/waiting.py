"""How long to wait between two looks at something that has not ended, and what to say when there was no time for it."""

from __future__ import annotations

import time
from collections.abc import Iterator

from forebay.errors import WaitTimeout

_FIRST_LOOK_S = 0.005
_LONGEST_LOOK_S = 0.5


def looks(timeout_s: float | None) -> Iterator[float]:
    """Pauses between one look and the next, ever longer, until the time is over; a last look at its end."""
    ends_at = None if timeout_s is None else time.monotonic() + timeout_s
    pause_s = _FIRST_LOOK_S
    while ends_at is None or (left_s := ends_at - time.monotonic()) > 0:
        yield pause_s if ends_at is None else min(pause_s, left_s)
        pause_s = min(_LONGEST_LOOK_S, 1.3 * pause_s)
    yield 0.0


def not_yet(identifier: str, timeout_s: float | None) -> WaitTimeout:
    return WaitTimeout(
        f"{identifier} has not ended within {timeout_s:g} s.", remedy="It goes on; wait again, or ask `forebay why`."
    )
