"""Documents wait durably and go through rate-limited, paid APIs exactly as fast as the quota allows."""

from importlib import import_module

TYPE_CHECKING = False  # typing's own costs more than all the rest of a process that only becomes another
if TYPE_CHECKING:
    from forebay.app.finished import Finished
    from forebay.app.forebay import Forebay
    from forebay.engine.context import Context
    from forebay.engine.signals import Permanent, Reschedule, Retry
    from forebay.model.document import Page
    from forebay.model.limit import Limit, Window
    from forebay.processors.base import Chunk

__all__ = [
    "Chunk",
    "Context",
    "Finished",
    "Forebay",
    "Limit",
    "Page",
    "Permanent",
    "Reschedule",
    "Retry",
    "Window",
]

_HOMES = {
    "Chunk": "forebay.processors.base",
    "Context": "forebay.engine.context",
    "Finished": "forebay.app.finished",
    "Forebay": "forebay.app.forebay",
    "Limit": "forebay.model.limit",
    "Page": "forebay.model.document",
    "Permanent": "forebay.engine.signals",
    "Reschedule": "forebay.engine.signals",
    "Retry": "forebay.engine.signals",
    "Window": "forebay.model.limit",
}


def __getattr__(name: str) -> object:
    """Load what is asked for: `import forebay.limits` must not pay for the rest."""
    if name not in _HOMES:
        raise AttributeError(f"module 'forebay' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
