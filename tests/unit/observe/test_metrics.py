from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from forebay.errors import BadInput, MissingExtra
from forebay.observe import emit, subscribe
from forebay.observe.metrics import Metrics, serve
from tests.unit.builders import assert_helpful

TASK = {"task_id": "t", "kind": "ocr", "attempt": 1, "run_s": 0.5}


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    made = Metrics()
    end = subscribe(made)
    yield made
    end()


@pytest.fixture
def address() -> Iterator[str]:
    heard: list[str] = []

    def listen(name: str, fields: Mapping[str, object]) -> None:
        if name == "metrics_serving":
            heard.append(str(fields["address"]))

    end = subscribe(listen)
    stop = serve("127.0.0.1", 0)
    end()
    yield heard[0]
    stop()
    stop()


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def get(address: str, path: str, method: str = "GET") -> tuple[int, str]:
    connection = HTTPConnection(urlsplit(address).netloc, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_endings_are_counted_by_kind_and_outcome(metrics: Metrics) -> None:
    emit("task_completed", **TASK)
    emit("task_completed", **TASK)
    emit("task_failed", **TASK, error_class="timeout")
    emit("task_canceled", **TASK)
    emit("task_retried", **TASK, error_class="timeout", retry_count=1, max_retries=3, delay_s=2)
    counted = {
        outcome: value(metrics, "forebay_tasks_settled_total", kind="ocr", outcome=outcome)
        for outcome in ("completed", "failed", "canceled", "retried")
    }
    assert counted == {"completed": 2, "failed": 1, "canceled": 1, "retried": 1}
    assert value(metrics, "forebay_task_seconds_sum", kind="ocr") == 2.5


def test_reschedules_are_counted_with_their_delays(metrics: Metrics) -> None:
    emit("task_rescheduled", **TASK, delay_s=3600, reschedule_count=1, max_reschedules=None)
    emit("task_rescheduled", **TASK, delay_s=0.4, reschedule_count=2, max_reschedules=None)
    assert value(metrics, "forebay_tasks_rescheduled_total", kind="ocr") == 2
    assert value(metrics, "forebay_tasks_settled_total", kind="ocr", outcome="rescheduled") == 2
    assert value(metrics, "forebay_reschedule_delay_seconds_bucket", kind="ocr", le="0.5") == 1
    assert value(metrics, "forebay_reschedule_delay_seconds_bucket", kind="ocr", le="86400.0") == 2


@pytest.mark.parametrize(
    ("ending", "more"),
    [
        ("task_completed", {}),
        ("task_retried", {}),
        ("task_rescheduled", {"delay_s": 1}),
        ("task_failed", {}),
        ("task_canceled", {}),
        ("task_handed_back", {}),
        ("task_fenced", {"token": 1}),
    ],
)
def test_running_tasks_rise_with_each_start_and_fall_with_each_ending(
    ending: str, more: dict[str, object], metrics: Metrics
) -> None:
    emit("task_started", **TASK)
    emit("task_started", **{**TASK, "task_id": "other"})
    emit("task_progress", task_id="t", kind="ocr", share=0.5, note="")
    assert value(metrics, "forebay_tasks_running", kind="ocr") == 2
    emit(ending, **TASK, **more)
    assert value(metrics, "forebay_tasks_running", kind="ocr") == 1


def test_a_task_that_ends_twice_or_never_began_is_not_subtracted(metrics: Metrics) -> None:
    emit("task_started", **TASK)
    emit("task_completed", **TASK)
    emit("task_fenced", task_id="t", kind="ocr", token=1)
    emit("task_canceled", **{**TASK, "task_id": "unseen"})
    assert value(metrics, "forebay_tasks_running", kind="ocr") == 0
    assert value(metrics, "forebay_settles_fenced_total", kind="ocr") == 1


def test_troubles_are_counted(metrics: Metrics) -> None:
    emit("tasks_rescued", count=3)
    emit("store_failed", verb="exchange", error_code="store_busy", pause_s=1)
    emit("child_killed", pid=1, kind="ocr", task_id="t", why="timeout", strays=0)
    emit("worker_started", worker="w1", session_id="s", kinds=["ocr"], concurrency=1, processes=1)
    assert value(metrics, "forebay_tasks_rescued_total") == 3
    assert value(metrics, "forebay_store_errors_total", verb="exchange", code="store_busy") == 1
    assert value(metrics, "forebay_children_killed_total", why="timeout") == 1
    assert value(metrics, "forebay_worker_info", worker="w1") == 1


def test_refusals_of_a_provider_are_counted_with_what_it_asked_for(metrics: Metrics) -> None:
    emit("rate_limited_retrying", limit="adobe", code=429, wait_s=12.0)
    emit("rate_limited_retrying", limit="adobe", code=429, wait_s=None)
    emit("quota_exhausted", limit="adobe", retry_in_s=3600.0)
    assert value(metrics, "forebay_rate_limit_events_total", limit="adobe", code="429") == 2
    assert value(metrics, "forebay_rate_limit_events_total", limit="adobe", code="quota") == 1
    assert value(metrics, "forebay_limit_cooldown_seconds_total", limit="adobe") == 3612


def test_waits_for_slots_and_late_starts_are_counted_by_limit(metrics: Metrics) -> None:
    emit("slot_acquired", limit="adobe", wait_s=0.004, in_flight=1)
    emit("slot_acquired", limit="adobe", wait_s=20.0, in_flight=2)
    emit("slot_released", limit="adobe", in_flight=1)
    emit("late_start", limit="adobe", age_s=0.5)
    assert value(metrics, "forebay_limit_wait_seconds_bucket", limit="adobe", le="0.005") == 1
    assert value(metrics, "forebay_limit_wait_seconds_sum", limit="adobe") == 20.004
    assert value(metrics, "forebay_late_starts_total", limit="adobe") == 1


def test_a_limit_is_degraded_until_it_heals(metrics: Metrics) -> None:
    emit("limit_degraded", limit="adobe", policy="wait", error_code="store_unreachable")
    assert value(metrics, "forebay_limit_degraded", limit="adobe") == 1
    emit("limit_healed", limit="adobe")
    assert value(metrics, "forebay_limit_degraded", limit="adobe") == 0


def test_every_instance_counts_for_itself(metrics: Metrics) -> None:
    emit("tasks_rescued", count=3)
    assert value(Metrics(), "forebay_tasks_rescued_total") == 0


def test_metrics_are_served_on_their_path_only(address: str) -> None:
    emit("tasks_rescued", count=3)
    status, text = get(address, "/metrics")
    assert status == 200
    assert "forebay_tasks_rescued_total 3.0" in text
    assert get(address, "/metrics?name[]=forebay_tasks_rescued_total")[0] == 200
    for path in ("/", "/metrics/", "/favicon.ico", "/../etc/passwd"):
        assert get(address, path)[0] == 404
    assert get(address, "/metrics", "POST")[0] == 405


@pytest.mark.skipif(sys.platform != "linux", reason="prometheus-client reads /proc")
def test_the_process_itself_is_measured(address: str) -> None:
    assert "process_resident_memory_bytes" in get(address, "/metrics")[1]


def test_after_stop_nobody_listens_or_counts() -> None:
    heard: list[str] = []
    end = subscribe(lambda name, fields: heard.append(str(fields["address"])))
    stop = serve("localhost", 0)
    end()
    stop()
    with pytest.raises(ConnectionRefusedError):
        get(heard[0], "/metrics")


def test_a_port_in_use_is_refused_with_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=f"Port {port} on 127.0.0.1 is in use") as caught:
            serve("127.0.0.1", port)
    assert_helpful(caught.value)
    assert "metrics_port" in caught.value.remedy


def test_a_host_of_another_machine_is_refused() -> None:
    with pytest.raises(BadInput, match=r"Metrics cannot be served on port 0 of 192\.0\.2\.1") as caught:
        serve("192.0.2.1", 0)
    assert_helpful(caught.value)


def test_a_missing_extra_is_named_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtra) as caught:
        serve("127.0.0.1", 0)
    assert caught.value.remedy == "Run: pip install 'forebay[metrics]'"
