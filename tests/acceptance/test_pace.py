"""Documents through a paid API, by worker processes, at the whole of its quota: judged by the simulator alone.

What the judges must not let pass is in tests/selftest/test_pipeline_benchmark.py, a limit above the quota in
tests/processors/test_on_simulator.py.
"""

from __future__ import annotations

import pytest

from benchmarks.pipeline import pace, reasons, storm
from benchmarks.pipeline.running import Storm, Terms, run
from benchmarks.pipeline.shapes import Shape

# Others keep the machine busy: a call may be on its way for half a second.
SHAPE = Shape(name="both", in_flight=4, n=8, per_s=1.0, call_s=0.1, most_s=0.3, calls=32, transit_s=0.5)
LATE_S = 2.0  # and a task that was claimed may wait for a core before its call, and after it
STORM = Storm(after=8, for_s=2.0, hint_s=0.6)  # longer than a window, so that somebody calls in it
TERMS = Terms(workers=2, patience_s=50.0, storm=STORM, warm=False)


@pytest.mark.slow
def test_at_the_whole_quota_none_is_refused_and_after_a_storm_the_rate_is_back_in_time() -> None:
    seen = run(SHAPE, TERMS)
    quota = seen.verdict["quotas"]["docai"]
    assert quota["refused"] == 0  # by the quota: those of the storm are not
    assert quota["within"]
    assert quota["windows"][0]["worst"] == SHAPE.n
    found = storm.judge(seen, STORM.hint_s)
    assert found.refused >= 1
    assert found.too_many == 0
    assert found.back_s <= storm.ASKED_S
    # Every chunk was answered once, and nobody paid for one twice.
    assert pace.judge(seen).calls == SHAPE.calls + found.refused
    why = reasons.judge(seen, hint_s=STORM.hint_s, late_s=LATE_S)
    assert why.wrong == ()
    assert {"window", "cool-down"} <= {each for said in why.said for each in said.split(" + ")}
