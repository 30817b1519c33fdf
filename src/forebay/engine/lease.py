"""Knows until when a worker may be sure of its session: no handler begins after that."""

from __future__ import annotations

from forebay.clock import steady


class Lease:
    """Moved on by every answer that renewed the session, from the moment of the question on."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self.sure_until = 0.0

    @property
    def sure(self) -> bool:
        return steady() < self.sure_until

    def renewed(self, asked_at: float) -> None:
        self.sure_until = max(self.sure_until, asked_at + self._lease_s)

    def lost(self) -> None:
        self.sure_until = 0.0
