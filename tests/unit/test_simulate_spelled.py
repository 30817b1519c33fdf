from __future__ import annotations

import pytest

from forebay.errors import BadInput
from forebay.simulate.spelled import latencies


def test_a_fixed_latency_may_be_named_so() -> None:
    assert latencies(["openai=fixed:0.3", "0.3"]) == {"openai": {"s": 0.3}, "*": {"s": 0.3}}
    with pytest.raises(BadInput):
        latencies(["openai=fixed:"])
