"""A slot as its process knows it: its line, its number there, and when the store granted it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forebay.limits.line import Line


class Call:
    """Whoever has it may make the call; once nobody has it any more, its line gives it back.

    `at` is the store's instant of the grant, `late` how many milliseconds old the grant may be when the call starts,
    `heard_at` when this process heard of the grant, and `units` what the call takes.
    """

    __slots__ = ("__weakref__", "at", "heard_at", "id", "late", "line", "units")

    def __init__(  # noqa: PLR0917 - of its line only
        self, line: Line, call_id: int, at: int, late: int, heard_at: float, units: dict[str, int]
    ) -> None:
        self.line = line
        self.id = call_id
        self.at = at
        self.late = late
        self.heard_at = heard_at
        self.units = units
