from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from forebay.observe import emit, subscribe
from forebay.observe.events import EVENTS

LOUD = {"worker_started", "task_retried", "task_failed", "child_killed", "store_failed"}


def test_an_event_is_a_record_with_its_level_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "forebay"):
        emit("task_failed", task_id="t", kind="k", attempt=2, error_class="timeout")
    [record] = caplog.records
    assert (record.name, record.levelno, record.getMessage()) == ("forebay", logging.WARNING, "task_failed")
    assert vars(record)["fields"] == {"task_id": "t", "kind": "k", "attempt": 2, "error_class": "timeout"}
    assert record.funcName == "test_an_event_is_a_record_with_its_level_and_fields"


def test_fields_may_have_the_names_that_records_reserve(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "forebay"):
        emit("pruned", count=1, name="x", message="y", args=3)
    assert vars(caplog.records[0])["fields"]["message"] == "y"


def test_an_unknown_event_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        emit("task_exploded")


def test_a_subscriber_hears_every_level_until_it_unsubscribes() -> None:
    heard: list[tuple[str, Mapping[str, object]]] = []
    unsubscribe = subscribe(lambda name, fields: heard.append((name, fields)))
    emit("child_started", pid=1)
    unsubscribe()
    unsubscribe()
    emit("child_started", pid=2)
    assert heard == [("child_started", {"pid": 1})]


def test_one_callback_subscribed_twice_hears_twice_and_leaves_once() -> None:
    heard: list[str] = []

    def listen(name: str, fields: Mapping[str, object]) -> None:
        heard.append(name)

    first, second = subscribe(listen), subscribe(listen)
    first()
    emit("pruned", count=1)
    second()
    assert heard == ["pruned"]


def test_a_subscriber_that_raises_is_logged_once_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def broken(name: str, fields: Mapping[str, object]) -> None:
        raise ValueError("secret text")

    ends = [subscribe(broken), subscribe(lambda name, fields: heard.append(name))]
    with caplog.at_level("WARNING", "forebay"):
        emit("child_started", pid=1)
        emit("child_started", pid=2)
    for end in ends:
        end()
    assert heard == ["child_started", "child_started"]
    [record] = caplog.records
    assert record.getMessage() == "subscriber_failed"
    assert vars(record)["fields"]["error_class"] == "ValueError"
    assert "secret text" not in str(vars(record))


def test_a_subscriber_may_unsubscribe_while_it_is_called() -> None:
    heard: list[str] = []

    def once(name: str, fields: Mapping[str, object]) -> None:
        heard.append(name)
        end()

    end = subscribe(once)
    emit("pruned", count=1)
    emit("pruned", count=1)
    assert heard == ["pruned"]


def test_an_event_that_nobody_hears_makes_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    make = logging.Logger.makeRecord

    def counted(*arguments: Any) -> logging.LogRecord:  # noqa: ANN401 - those of the logger
        made.append(arguments)
        return make(*arguments)

    monkeypatch.setattr(logging.Logger, "makeRecord", counted)
    logger = logging.getLogger("forebay")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        emit("task_completed", task_id="a", kind="b", attempt=1, run_s=0.2)
        assert not made
        emit("task_failed", task_id="a", kind="b", attempt=1, error_class="timeout")
        assert len(made) == 1
    finally:
        logger.setLevel(before)


def test_a_program_without_logging_prints_no_events() -> None:
    code = "from forebay.observe import emit; emit('tasks_rescued', count=1)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout + run.stderr == ""


def test_the_door_is_cheap() -> None:
    code = "import sys, forebay.observe; print({'structlog', 'prometheus_client', 'pydantic'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_texts_of_errors_are_for_debug_only() -> None:
    texts = {"error_text", "traceback", "message", "payload", "result"}
    assert {name for name, event in EVENTS.items() if texts & set(event.fields)} == {"task_error"}
    assert EVENTS["task_error"].level == logging.DEBUG
    assert all(EVENTS[name].level >= logging.INFO for name in LOUD)
