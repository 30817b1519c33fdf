from __future__ import annotations

from forebay.rules import limit_state
from tests.unit.rules.limit_builders import NOW, record_of


def test_a_call_counts_and_gives_back_only_the_units_that_it_names() -> None:
    record = record_of(None, [(10, 60.0, "pages")])
    (window,) = limit_state.counted(record)
    log = limit_state.log_of(record, window.name)
    limit_state.count(record, {"calls": 1}, NOW)
    assert log["sum"] == 0
    limit_state.count(record, {"pages": 4}, NOW)
    limit_state.uncount(record, {"calls": 1}, NOW, NOW)
    assert log["sum"] == 4
    limit_state.uncount(record, {"pages": 3}, NOW, NOW)
    assert log["sum"] == 1
