"""What can be set, and who set it. Its names load when they are first used, since they cost an import of pydantic."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forebay.settings.fields import Settings, Source
    from forebay.settings.loading import load

__all__ = ["Settings", "Source", "load"]

_HOMES = {
    "Settings": "forebay.settings.fields",
    "Source": "forebay.settings.fields",
    "load": "forebay.settings.loading",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'forebay.settings' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
