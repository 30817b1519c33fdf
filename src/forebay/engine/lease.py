"""Knows until when a worker may be sure of its session: no handler begins after that, and gets no further slot."""

from __future__ import annotations

import asyncio

from forebay.clock import steady

_LOOK_S = 0.05


class Lease:
    """Moved on by every answer that renewed the session, from the moment of the question on."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self.sure_until = 0.0

    @property
    def sure(self) -> bool:
        return steady() < self.sure_until

    async def until_sure(self) -> None:
        """At once, as a rule. Whoever waits here for a session that is lost is stopped by its worker."""
        while not self.sure:  # noqa: ASYNC110 - it is renewed from other threads, and rarely waited for
            await asyncio.sleep(_LOOK_S)

    def renewed(self, asked_at: float) -> None:
        self.sure_until = max(self.sure_until, asked_at + self._lease_s)

    def lost(self) -> None:
        self.sure_until = 0.0
