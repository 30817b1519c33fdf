"""A limiter for calls to paid APIs: in flight, exact windows and a shared cool-down, taken in one step.

Usable alone, from threads, event loops and many processes. Its names load when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forebay.errors import Busy, NeverFits, PlaceHeld
    from forebay.limits.asking import Wait
    from forebay.limits.follow import FollowedFile
    from forebay.limits.limiter import Limiter
    from forebay.limits.plain import (
        aacquire_slot,
        acquire_slot,
        get_current_in_flight,
        get_current_usage,
        release_slot,
        use,
    )
    from forebay.limits.slot import Slot
    from forebay.limits.usage import Usage
    from forebay.model.limit import Limit, Window

__all__ = [
    "Busy",
    "FollowedFile",
    "Limit",
    "Limiter",
    "NeverFits",
    "PlaceHeld",
    "Slot",
    "Usage",
    "Wait",
    "Window",
    "aacquire_slot",
    "acquire_slot",
    "get_current_in_flight",
    "get_current_usage",
    "release_slot",
    "use",
]

_HOMES = {
    "Busy": "forebay.errors",
    "FollowedFile": "forebay.limits.follow",
    "Limit": "forebay.model.limit",
    "Limiter": "forebay.limits.limiter",
    "NeverFits": "forebay.errors",
    "PlaceHeld": "forebay.errors",
    "Slot": "forebay.limits.slot",
    "Usage": "forebay.limits.usage",
    "Wait": "forebay.limits.asking",
    "Window": "forebay.model.limit",
    "aacquire_slot": "forebay.limits.plain",
    "acquire_slot": "forebay.limits.plain",
    "get_current_in_flight": "forebay.limits.plain",
    "get_current_usage": "forebay.limits.plain",
    "release_slot": "forebay.limits.plain",
    "use": "forebay.limits.plain",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'forebay.limits' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
