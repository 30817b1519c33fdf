"""Draws what befalls a worker: where its life may end by itself, and what strikes it from outside."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

# How likely a worker that is to fall here does so each time it comes by: more where it comes by less often.
PLACES = {
    "before_claim": 0.05,
    "claimed": 0.15,
    "request_sent": 0.1,
    "response_read": 0.12,
    "result_written": 0.5,
    "result_durable": 0.15,
    "settled": 0.2,
}
_STRIKES = ("kill", "kill", "stop", "term", "terms")
_ELSEWHERE = 1 / 25
_RARER = 1 / 4


def aim(chance: random.Random, struck: Mapping[str, int], places: Mapping[str, float]) -> str:
    """Where the next life will probably end, or be stopped: one of the places that were struck least."""
    least = min(struck.get(place, 0) for place in places)
    return chance.choice([place for place in places if struck.get(place, 0) == least])


def failpoints(chance: random.Random, main: str, places: Mapping[str, float], *, stops: float) -> str:
    """The plan of a life that is aimed at this place."""
    shares = {place: share * (1 if place == main else _ELSEWHERE) for place, share in places.items()}
    return ",".join(_armed(place, share, stop=chance.random() < stops) for place, share in shares.items())


def _armed(place: str, share: float, *, stop: bool) -> str:
    # Whoever is stopped lives on, and comes by again.
    return f"{place}=stop@{share * _RARER:.4f}" if stop else f"{place}=kill@{share:.4f}"


def strikes(chance: random.Random, *, only: str = "") -> Iterator[str]:
    """Shuffled anew when all of them have been dealt."""
    cards = (only,) if only else _STRIKES
    while True:
        yield from chance.sample(cards, len(cards))
