"""The limiter as plain functions, for code that cannot use a block: one limiter a process, slots by name."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from forebay.clock import steady
from forebay.errors import BadInput, NotFound
from forebay.ids import shown
from forebay.limits.limiter import DEFAULT_WAIT_S, Limiter
from forebay.limits.open_slots import OpenSlots
from forebay.limits.slot import Slot
from forebay.model.names import check_label, check_name

if TYPE_CHECKING:
    from forebay.limits.usage import Usage, WindowUsage

_MINUTE_S = 60.0
_KNOWN_S = 10.0

_lock = threading.Lock()
_limiter: Limiter | None = None
_account: str | None = None
_names: dict[str, tuple[str, float]] = {}  # by api_type: the limit that it takes from, and until when that is believed

_open = OpenSlots()
_api_types: WeakKeyDictionary[Slot, str] = WeakKeyDictionary()


def use(limiter: Limiter | None, *, limit: str | None = None) -> None:
    """Have these functions use this limiter; None: that of the settings again, as `Limiter()` is.

    `limit` names the limit of the account: every api_type takes from it, and only labels its slots.
    """
    global _limiter, _account
    if limit is not None:
        check_name("limit", limit)
    with _lock:
        _limiter, _account = limiter, limit
        _names.clear()


def acquire_slot(
    api_type: str, timeout_s: float = DEFAULT_WAIT_S, *, units: dict[str, int] | None = None, label: str = ""
) -> Slot:
    """Wait for a slot, which is true; raises `Busy` when there is none in time. In an event loop await the twin.

    It is of the limit that `use` named; else of the limit of this name; else, if there is one limit only, of that one.
    """
    slot = _slot(_limit(api_type), api_type, timeout_s, units, label).take()
    _remember(api_type, slot)
    return slot


async def aacquire_slot(
    api_type: str, timeout_s: float = DEFAULT_WAIT_S, *, units: dict[str, int] | None = None, label: str = ""
) -> Slot:
    import asyncio  # noqa: PLC0415 - whoever awaits has loaded it

    limit = _known_limit(api_type)
    if limit is None:
        limit = await asyncio.to_thread(_limit, api_type)
    slot = await _slot(limit, api_type, timeout_s, units, label).atake()
    _remember(api_type, slot)
    return slot


def _slot(limit: str, api_type: str, timeout_s: float, units: dict[str, int] | None, label: str) -> Slot:
    shown_as = label if api_type == limit else f"{api_type}: {label}" if label else api_type
    return _default().slot(limit, units=units, timeout_s=timeout_s, label=shown_as)


def _known_limit(api_type: str) -> str | None:
    found, until = _names.get(api_type, ("", 0.0))
    return _account or (found if steady() < until else None)


def _limit(api_type: str | None) -> str:
    """Return the name of the limit that an api_type takes from; without one, of the only limit."""
    if api_type is not None:
        check_label("api_type", api_type)
    if (known := _known_limit(api_type or "")) is not None:
        return known
    names = _default().names()
    if api_type in names:
        limit = str(api_type)
    elif len(names) == 1:
        limit = names[0]
    else:
        what = "there are several limits" if names else "no limit is defined"
        wanted = "No api_type was given" if api_type is None else f"There is no limit {shown(api_type)}"
        raise NotFound(
            f"{wanted}, and {what}.",
            remedy=f"Name the account's limit: use(limiter, limit=…). Known limits: {', '.join(names) or 'none'}.",
        )
    _names[api_type or ""] = (limit, steady() + _KNOWN_S)
    return limit


def release_slot(slot: Slot | str) -> bool:
    """Give a slot back, or by an api_type the newest that this thread or task has of it; twice is harmless."""
    if isinstance(slot, Slot):
        held = slot.held
        slot.release()
        return held
    if not isinstance(slot, str):
        raise BadInput(f"{shown(slot)} is no slot.", remedy="Give what acquire_slot returned, or an api_type.")
    newest = next((each for each in reversed(_open.mine()) if _api_types.get(each) == slot), None)
    return newest is not None and release_slot(newest)


def get_current_in_flight(api_type: str | None = None) -> int:
    """Calls in progress of all processes that share the limit; which limit it is, see `acquire_slot`."""
    return _default().usage(_limit(api_type)).in_flight


def get_current_usage(api_type: str | None = None) -> dict[str, Any]:
    """Of all processes that share the limit. Utilizations are percent; what has no bound is None."""
    usage = _default().usage(_limit(api_type))
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


def _remember(api_type: str, slot: Slot) -> None:
    _api_types[slot] = api_type
    _open.add(slot)


def _default() -> Limiter:
    global _limiter  # noqa: PLW0603 - same
    found = _limiter
    if found is None:
        with _lock:
            found = _limiter
            if found is None:
                _limiter = found = Limiter()
    return found
