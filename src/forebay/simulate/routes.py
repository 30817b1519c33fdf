"""The routes of every API: their names, which of them an API's quota counts, and what a call of each costs."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

ROUTES: Final = (
    "docai.process",
    "docai.token",
    "adobe.token",
    "adobe.assets",
    "adobe.upload",
    "adobe.autotag",
    "adobe.status",
    "adobe.job",
    "adobe.download",
    "openai.chat",
    "azure.chat",
    "translate.detect",
)
"""`adobe.job` is not a request: it begins with an accepted autotag and lasts until the job has ended."""

COUNTED: Final[dict[str, tuple[str, ...]]] = {
    "docai": ("docai.process",),
    "adobe": ("adobe.assets", "adobe.autotag", "adobe.status"),
    "openai": ("openai.chat",),
    "azure": ("azure.chat",),
    "translate": ("translate.detect",),
}
"""Tokens, uploads and downloads go past the gateways that count."""

PRICES: Final[dict[str, dict[str, float]]] = {
    "docai.process": {"pages": 0.0015},
    "adobe.job": {"transactions": 0.05},
    "openai.chat": {"prompt_tokens": 0.15e-6, "completion_tokens": 0.6e-6},
    "azure.chat": {"prompt_tokens": 0.15e-6, "completion_tokens": 0.6e-6},
    "translate.detect": {"characters": 20e-6},
}
"""US dollars a unit, about what lists said: settings have the last word."""


def matching(name: str) -> tuple[str, ...]:
    """The routes that a quota, a latency or a fault of this name is about."""
    return COUNTED.get(name) or tuple(route for route in ROUTES if fnmatchcase(route, name))
