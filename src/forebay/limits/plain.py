"""The limiter as plain functions, for code that cannot use a block: one limiter a process, slots by name."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from forebay.errors import BadInput
from forebay.ids import shown
from forebay.limits.limiter import DEFAULT_WAIT_S, Limiter
from forebay.limits.open_slots import OpenSlots
from forebay.limits.slot import Slot

if TYPE_CHECKING:
    from forebay.limits.usage import Usage, WindowUsage

_MINUTE_S = 60.0

_lock = threading.Lock()
_limiter: Limiter | None = None


_open = OpenSlots()


def use(limiter: Limiter | None) -> None:
    """Have these functions use this limiter; None: that of the settings again, as `Limiter()` is."""
    global _limiter  # noqa: PLW0603 - one a process, as these functions promise
    with _lock:
        _limiter = limiter


def acquire_slot(
    api_type: str, timeout_s: float = DEFAULT_WAIT_S, *, units: dict[str, int] | None = None, label: str = ""
) -> Slot:
    """Wait for a slot, which is true; raises `Busy` when there is none in time. In an event loop await the twin."""
    slot = _default().slot(api_type, units=units, timeout_s=timeout_s, label=label).take()
    _open.add(slot)
    return slot


async def aacquire_slot(
    api_type: str, timeout_s: float = DEFAULT_WAIT_S, *, units: dict[str, int] | None = None, label: str = ""
) -> Slot:
    slot = await _default().slot(api_type, units=units, timeout_s=timeout_s, label=label).atake()
    _open.add(slot)
    return slot


def release_slot(slot: Slot | str) -> bool:
    """Give a slot back, or by an api_type the newest that this thread or task has of it; twice is harmless."""
    if isinstance(slot, Slot):
        held = slot.held
        slot.release()
        return held
    if not isinstance(slot, str):
        raise BadInput(f"{shown(slot)} is no slot.", remedy="Give what acquire_slot returned, or an api_type.")
    newest = next((each for each in reversed(_open.mine()) if each.limit == slot), None)
    return newest is not None and release_slot(newest)


def get_current_in_flight(api_type: str) -> int:
    """Calls in progress of all processes that share the limit."""
    return _default().usage(api_type).in_flight


def get_current_usage(api_type: str) -> dict[str, Any]:
    """Of all processes that share the limit. Utilizations are percent; what has no bound is None."""
    usage = _default().usage(api_type)
    minute = _minute(usage)
    share = usage.utilisation
    return {
        "in_flight": usage.in_flight,
        "max_in_flight": usage.limit.in_flight,
        "in_flight_utilization": None if share is None else round(100 * share, 1),
        "in_flight_available": usage.free,
        "rpm": None if minute is None else _per_minute(minute.used, minute),
        "max_rpm": None if minute is None else _per_minute(minute.n, minute),
        "rpm_utilization": None if minute is None else round(100 * minute.utilisation, 1),
        "rpm_available": None if minute is None else _per_minute(minute.free, minute),
        "next_in_s": 0.0 if minute is None else minute.next_in_s,
        "waiting": usage.waiting,
        "paused": usage.paused,
        "cooldown_s": usage.cooldown_for_s,
    }


def _minute(usage: Usage) -> WindowUsage | None:
    """The window of calls whose length is nearest to a minute."""
    calls = [each for each in usage.windows if each.unit == "calls"]
    return min(calls, key=lambda each: abs(each.per_s - _MINUTE_S), default=None)


def _per_minute(count: int, window: WindowUsage) -> float:
    return count if window.per_s == _MINUTE_S else round(count * _MINUTE_S / window.per_s, 1)


def _default() -> Limiter:
    global _limiter  # noqa: PLW0603 - same
    found = _limiter
    if found is None:
        with _lock:
            found = _limiter
            if found is None:
                _limiter = found = Limiter()
    return found
