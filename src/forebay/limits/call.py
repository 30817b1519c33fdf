"""A slot as its process knows it: which line it came from, its number there, and when the store granted it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from forebay.limits.line import Line


class Call(NamedTuple):
    line: Line
    id: int
    at: int
