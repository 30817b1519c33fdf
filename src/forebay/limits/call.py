"""A slot as its process knows it: which line it came from, its number there, and when the store granted it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forebay.limits.line import Line


class Call:
    """Whoever has it may make the call; once nobody has it any more, its line gives it back."""

    __slots__ = ("__weakref__", "at", "id", "line")

    def __init__(self, line: Line, call_id: int, at: int) -> None:
        self.line = line
        self.id = call_id
        self.at = at
