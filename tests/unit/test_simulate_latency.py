from __future__ import annotations

import statistics
from random import Random

import pytest

from forebay.simulate.latency import draw
from forebay.simulate.settings import Latency


def draws(latency: Latency, *, count: int = 1000) -> list[float]:
    random = Random(7)
    return [draw("openai.chat", {"openai": latency}, random) for _ in range(count)]


def test_a_fixed_latency_is_always_the_same() -> None:
    assert set(draws(Latency(s=0.4))) == {0.4}


def test_a_uniform_latency_fills_its_range() -> None:
    drawn = draws(Latency(kind="uniform", s=2, most_s=4))
    assert 2 <= min(drawn) < 2.1
    assert 3.9 < max(drawn) <= 4


def test_a_lognormal_latency_spreads_around_its_median_up_to_its_most() -> None:
    drawn = draws(Latency(kind="lognormal", s=1, most_s=3))
    assert statistics.median(drawn) == pytest.approx(1, rel=0.1)
    assert len(set(drawn)) > 900
    assert max(drawn) == 3


def test_the_latency_of_a_route_goes_before_that_of_its_api_and_that_before_all_others() -> None:
    settings = {"*": Latency(s=1), "openai": Latency(s=2), "openai.chat": Latency(s=3)}
    assert [draw(route, settings, Random(1)) for route in ("openai.chat", "openai.other", "docai.process")] == [3, 2, 1]
