"""How long an answer takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random

from forebay.simulate.routes import matching
from forebay.simulate.settings import Latency

_NONE = Latency()


def draw(route: str, settings: Mapping[str, Latency], random: Random) -> float:
    """The latency of the route itself goes before that of its API, and that before any other."""
    latency = settings.get(route) or settings.get(route.partition(".")[0])
    if latency is None:
        latency = next((each for name, each in settings.items() if route in matching(name)), _NONE)
    if latency.kind == "uniform":
        return random.uniform(latency.s, max(latency.s, latency.most_s or latency.s))
    if latency.kind == "lognormal" and latency.s > 0:
        drawn = random.lognormvariate(math.log(latency.s), latency.sigma)
        return min(drawn, latency.most_s) if latency.most_s is not None else drawn
    return latency.s
