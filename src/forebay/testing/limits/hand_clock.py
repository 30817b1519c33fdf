"""A store's clock that is moved by hand, and set wrong by hand: only then do the two times that it knows differ."""

from __future__ import annotations

from collections.abc import Callable

NOON = 1_800_000_000_000


class HandClock:
    """Called, it says what a store's clock shows, in milliseconds; `steady` is the time that really passes.

    A store whose clock is on a server sets `moved`, which is told what to show there.
    """

    def __init__(self, now: int = NOON) -> None:
        self.shown = now
        self.steady = now
        self.moved: Callable[[int], None] | None = None

    def __call__(self) -> int:
        return self.shown

    def move(self, ms: int) -> None:
        self.steady += ms
        self.jump(ms)

    def jump(self, ms: int) -> None:
        """Set it wrong: no time passes."""
        self.shown += ms
        if self.moved is not None:
            self.moved(self.shown)
