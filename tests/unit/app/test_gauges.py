"""Gauges of the fleet: what the stores hold, told by one process at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forebay import Limit, Window
from forebay.app import gauges
from forebay.app.forebay import Forebay
from forebay.app.gauges import GAUGES, FleetGauges
from forebay.clock import SystemClock
from forebay.errors import StoreUnreachable
from forebay.model.exchange import Session
from forebay.model.outcome import Failed
from forebay.model.task import Status
from forebay.observe import subscribe
from forebay.testing.workers import Worker, lone


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Forebay]:
    with Forebay(f"sqlite:///{tmp_path}/ledger.db") as app:
        yield app


@pytest.fixture(autouse=True)
def read_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauges, "FRESH_S", 0.0)


def values(collector: FleetGauges) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        family.name.removeprefix("forebay_"): {tuple(sample.labels.values()): sample.value for sample in family.samples}
        for family in collector.collect()
    }


def test_tasks_lanes_and_workers_are_counted(app: Forebay) -> None:
    app.ledger.submit([lone(n) for n in range(4)] + [lone(9, delay_s=60), lone(5, kind="other", limit="adobe")])
    worker = Worker(app.ledger, SystemClock())
    worker.take()
    worker.settle(worker.take(), Failed(error_class="bug", text="It broke."))
    app.ledger.open_session(Session(id="b" * 26, worker="second", lease_s=15.0))
    read = values(FleetGauges(app))
    assert set(read) == set(GAUGES)
    assert read["tasks"] == {
        ("work", "pending"): 3,
        ("work", "running"): 1,
        ("work", "failed"): 1,
        ("other", "pending"): 1,
        ("other", "running"): 0,
    }
    assert read["dead_letters"] == {("work",): 1}
    assert read["workers_alive"] == {(): 2}
    assert (read["lane_ready"], read["lane_delayed"]) == (
        {("work",): 2, ("other@adobe",): 1},
        {("work",): 1, ("other@adobe",): 0},
    )
    assert 0 <= read["lane_oldest_ready_seconds"]["work",] < 60


def test_limits_are_told_with_what_they_use(app: Forebay) -> None:
    limiter = app.limits.limiter
    limiter.define(Limit("adobe", in_flight=5, windows=[Window(190, per_s=60)]))
    limiter.define(Limit("rate", windows=[Window(10, per_s=1)]))
    with limiter.slot("adobe"):
        read = values(FleetGauges(app))
    assert (read["limit_in_flight"], read["limit_free"]) == ({("adobe",): 1, ("rate",): 0}, {("adobe",): 4})
    assert read["limit_window_used"] == {("adobe", "calls", "60"): 1, ("rate", "calls", "1"): 0}
    assert (read["limit_window_max"]["adobe", "calls", "60"], read["limit_paused"]["adobe",]) == (190, 0)
    limiter.pause("adobe")
    assert values(FleetGauges(app)) == {}, "another collector has the turn"


def test_of_very_many_limits_the_first_are_told(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauges, "MAX_LIMITS", 2)
    for name in ("c", "a", "b"):
        app.limits.limiter.define(Limit(name, in_flight=1))
    assert values(FleetGauges(app))["limit_in_flight"] == {("a",): 0, ("b",): 0}


def test_one_process_at_a_time_tells_them(app: Forebay) -> None:
    first, second = FleetGauges(app), FleetGauges(app)
    assert values(first)
    assert values(second) == {}
    assert values(first)
    first.close()
    assert values(second)
    assert values(first) == {}


def test_a_process_that_asks_no_more_loses_its_turn(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauges, "TURN_S", 0.3)
    first, second = FleetGauges(app), FleetGauges(app)
    while not values(first):
        pass
    while not values(second):
        pass


def test_a_store_that_fails_costs_its_gauges_only(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any) -> bool:  # noqa: ANN401 - a double
        raise StoreUnreachable("It is gone.", remedy="Wait.")

    events: list[str] = []
    unsubscribe = subscribe(lambda name, _: events.append(name))
    collector = FleetGauges(app)
    with monkeypatch.context() as broken:
        broken.setattr(app.ledger, "begin_request", unreachable)
        assert values(collector) == {}
    assert events == ["store_failed"]
    assert values(collector)
    unsubscribe()


def test_a_store_that_hangs_does_not_hang_the_scrape(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    gone_on = threading.Event()
    monkeypatch.setattr(gauges, "ANSWER_WITHIN_S", 0.01)
    monkeypatch.setattr(app.ledger, "begin_request", lambda *_: gone_on.wait(30) and False)
    collector = FleetGauges(app)
    assert values(collector) == {}
    gone_on.set()


def test_all_tasks_are_counted_rarely(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    def count() -> dict[tuple[str, Status], int]:
        counts.append(1)
        return {}

    monkeypatch.setattr(app.ledger, "count", count)
    collector = FleetGauges(app)
    for _ in range(3):
        assert values(collector)
    assert len(counts) == 1


def test_a_slow_store_costs_no_scrape_its_gauges(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = FleetGauges(app)
    assert values(collector)
    may_go_on = threading.Event()
    lanes = app.ledger.lanes
    monkeypatch.setattr(app.ledger, "lanes", lambda: may_go_on.wait(30) and lanes())
    monkeypatch.setattr(gauges, "ANSWER_WITHIN_S", 0.01)
    for _ in range(3):
        assert set(values(collector)) == set(GAUGES)
    may_go_on.set()


def test_a_store_that_hangs_for_a_whole_turn_costs_its_gauges(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauges, "TURN_S", 0.2)
    collector = FleetGauges(app)
    assert values(collector)
    may_go_on = threading.Event()
    monkeypatch.setattr(app.ledger, "lanes", lambda: may_go_on.wait(30) and [])
    monkeypatch.setattr(gauges, "ANSWER_WITHIN_S", 0.3)
    assert values(collector) == {}
    may_go_on.set()


def test_what_was_read_before_the_turn_ended_is_not_told_after_it(
    app: Forebay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gauges, "TURN_S", 0.1)
    monkeypatch.setattr(gauges, "ANSWER_WITHIN_S", 0.01)
    may_go_on = threading.Event()
    lanes = app.ledger.lanes
    monkeypatch.setattr(app.ledger, "lanes", lambda: may_go_on.wait(30) and lanes())
    collector = FleetGauges(app)
    assert values(collector) == {}
    time.sleep(0.15)
    may_go_on.set()
    reading = collector._reading
    assert reading is not None
    reading.result(30)
    assert values(collector) == {}
