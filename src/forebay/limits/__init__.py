"""A limiter for calls to paid APIs: in flight, exact windows and a shared cool-down, taken in one step.

Usable alone, from threads, event loops and many processes. Its names load when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forebay.errors import Busy, NeverFits
    from forebay.limits.limiter import Limiter
    from forebay.limits.slot import Slot
    from forebay.limits.usage import Usage
    from forebay.model.limit import Limit, Window

__all__ = ["Busy", "Limit", "Limiter", "NeverFits", "Slot", "Usage", "Window"]

_HOMES = {
    "Busy": "forebay.errors",
    "Limit": "forebay.model.limit",
    "Limiter": "forebay.limits.limiter",
    "NeverFits": "forebay.errors",
    "Slot": "forebay.limits.slot",
    "Usage": "forebay.limits.usage",
    "Window": "forebay.model.limit",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'forebay.limits' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
