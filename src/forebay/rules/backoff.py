"""Decides how long a failed task and a throttled limit wait; jitter is drawn by the caller, 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence

from forebay.errors import BadInput
from forebay.ids import shown
from forebay.model.names import check_count, check_duration

COOLDOWN_STEPS_S = (2.0, 4.0, 8.0, 16.0, 30.0)
_COOLDOWN_JITTER = 0.2
_MAX_FACTOR = 1000


def retry_delay_s(
    retry_count: int, jitter: float, *, base_s: float = 2.0, factor: float = 2.0, max_s: float = 300.0
) -> float:
    """The wait before the next retry, after `retry_count` earlier ones: 50 to 100 % of its step."""
    _check_jitter(jitter)
    check_count("retry_count", retry_count)
    check_duration("base_s", base_s)
    check_duration("max_s", max_s)
    if not 1 <= factor <= _MAX_FACTOR:
        raise BadInput(f"factor is {shown(factor)}, outside 1 to {_MAX_FACTOR}.", remedy="The default is 2.")
    try:
        step_s = min(base_s * float(factor) ** retry_count, max_s)
    except OverflowError:
        step_s = max_s if base_s else 0.0
    return step_s * (0.5 + jitter / 2)


def cooldown_s(level: int, jitter: float, *, steps: Sequence[float] = COOLDOWN_STEPS_S) -> float:
    """The pause of a limit whose provider gave no hint; level 0 is the first in an episode."""
    _check_jitter(jitter)
    check_count("level", level)
    if not steps:
        raise BadInput("A cool-down has no steps.", remedy="Give at least one, in seconds.")
    step_s = check_duration("cool-down step", steps[min(level, len(steps) - 1)])
    # Upward only: to come back before the step is over would be to be throttled again.
    return step_s * (1 + _COOLDOWN_JITTER * jitter)


def _check_jitter(jitter: float) -> None:
    if not 0 <= jitter <= 1:
        raise BadInput(f"jitter is {shown(jitter)}, outside 0 to 1.", remedy="Draw it with random.random().")
