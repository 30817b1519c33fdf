"""Maps a store's instants to this process's steady clock, so that a grant is never taken for younger than it is."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

WINDOW_S = 10.0
DRIFT = 500e-6
"""How fast two clocks may drift apart: more than any clock of a machine that is in order."""


class _Sample(NamedTuple):
    """An answer: the store said `instant_s` at some moment between `sent_at` and `received_at`."""

    instant_s: float
    sent_at: float
    received_at: float

    def latest_at(self, now: float) -> float:
        """Return what the store's clock shows now, at most."""
        return self.instant_s + (now - self.sent_at) * (1 + DRIFT)

    def earliest_at(self, now: float) -> float:
        """Return what the store's clock shows now, at least."""
        return self.instant_s + (now - self.received_at) * (1 - DRIFT)


class StoreClock:
    """Keeps the answers of the last 10 s that bound the store's clock best.

    An answer that came back at once says what the store's clock shows; one that was long on its way says little. So a
    grant that waited for a slow store ages only from the moment when the store made it.
    """

    def __init__(self) -> None:
        # Oldest first, each one a worse bound than those before: the first one that is recent is the best.
        self._samples: deque[_Sample] = deque()
        self._earliest: _Sample | None = None
        self._era: tuple[int, int] = (-1, -1)

    def note(self, instant: int, sent_at: float, received_at: float, *, generation: int, offset: int) -> None:
        """Note an answer. After a jump of the store's clock, earlier answers say nothing any more."""
        sample = _Sample(instant / 1000, sent_at, received_at)
        if (generation, offset) != self._era or self._contradicts(sample):
            self._era = (generation, offset)
            self._samples.clear()
            self._earliest = None
        while self._samples and self._samples[-1].latest_at(received_at) >= sample.latest_at(received_at):
            self._samples.pop()
        self._samples.append(sample)
        while len(self._samples) > 1 and self._samples[0].received_at < received_at - WINDOW_S:
            self._samples.popleft()
        if (
            self._earliest is None
            or self._earliest.received_at < received_at - WINDOW_S
            or self._earliest.earliest_at(received_at) <= sample.earliest_at(received_at)
        ):
            self._earliest = sample

    def _contradicts(self, sample: _Sample) -> bool:
        """Return whether the store's clock cannot have shown this as well as what it showed before."""
        if not self._samples or self._earliest is None:
            return False
        now = sample.received_at
        # Instants are whole milliseconds.
        return (
            sample.earliest_at(now) > self._samples[0].latest_at(now) + 0.001
            or sample.latest_at(now) < self._earliest.earliest_at(now) - 0.001
        )

    def age_s(self, instant: int, now: float) -> float:
        """Return how long ago that instant was, at most; infinite while the store has said nothing."""
        if not self._samples:
            return float("inf")
        best = self._samples[0]
        since_s = best.instant_s - instant / 1000
        # The store's clock may be as slow, or as fast, as two clocks may drift apart.
        return now - best.sent_at + since_s / (1 - DRIFT if since_s > 0 else 1 + DRIFT)
