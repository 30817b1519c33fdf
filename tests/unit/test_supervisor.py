"""Internal threads: an exception is an event and a pause, not the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import pytest

from forebay.observe import subscribe
from forebay.supervisor import FIRST_PAUSE_S, LONGEST_PAUSE_S, Failures, SupervisedThread

SOON_S = 10.0


@pytest.fixture
def failures() -> Iterator[list[Mapping[str, object]]]:
    heard: list[Mapping[str, object]] = []
    stop = subscribe(lambda name, fields: heard.append(fields) if name == "internal_thread_failed" else None)
    yield heard
    stop()


@pytest.mark.parametrize("error", [RuntimeError("bug"), SystemExit(1), MemoryError()])
def test_work_that_raises_begins_again_and_is_reported(
    failures: list[Mapping[str, object]], error: BaseException
) -> None:
    rounds: list[int] = []
    done = threading.Event()

    def work() -> None:
        rounds.append(1)
        if len(rounds) < 3:
            raise error
        done.set()

    thread = SupervisedThread("forebay-test", work)
    thread.start()
    assert done.wait(SOON_S)
    thread.join(SOON_S)
    assert not thread.is_alive
    assert [(each["thread"], each["restart_count"]) for each in failures] == [("forebay-test", 1), ("forebay-test", 2)]
    assert failures[0]["error_class"] == type(error).__name__
    assert "test_supervisor.py:" in str(failures[0]["place"])
    assert "bug" not in str(failures), "the text of an error may hold what a document says"


def test_a_thread_that_is_stopped_does_not_begin_again() -> None:
    began = threading.Event()

    def work() -> None:
        began.set()
        raise RuntimeError

    thread = SupervisedThread("forebay-test", work)
    thread.start()
    assert began.wait(SOON_S)
    thread.stop()
    thread.join(SOON_S)
    assert not thread.is_alive


def test_pauses_grow_to_a_bound_and_are_short_again_when_it_works() -> None:
    failures = Failures()
    pauses = [failures.report("forebay-test", RuntimeError()) for _ in range(12)]
    assert pauses[0] == FIRST_PAUSE_S
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_S
    failures.clear()
    assert failures.report("forebay-test", RuntimeError()) == FIRST_PAUSE_S


@pytest.mark.slow
def test_a_subscriber_or_log_that_raises_does_not_end_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def bad(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr("forebay.supervisor.emit", bad)
    assert Failures().report("forebay-test", RuntimeError()) == FIRST_PAUSE_S
