"""`forebay demo` as a user runs it: promises hold, a limit above the quota is noticed, and nothing is left behind."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.demo.ground import Descendants, demo

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes where only Linux has them"),
]


@pytest.mark.slow
def test_every_promise_holds_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with demo(tmp_path, "-o", "json") as process, Descendants(process.pid) as descendants:
        out, err = process.communicate()
    assert process.returncode == 0, (out, err)
    shown = json.loads(out)
    assert shown["held"]
    assert all(promise["held"] for promise in shown["promises"])
    assert shown["killed"]["calls_under_way"] >= 1
    assert f"kill -9 {shown['killed']['pid']}" in err
    assert shown["forebay"]["done_count"] == shown["forebay"]["document_count"]
    assert shown["forebay"]["verdict"]["refused_429"] == 0
    assert shown["naive"]["verdict"]["refused_429"] > 0
    assert "limit 'docai' has" in err
    assert descendants.count >= 5
    assert descendants.left() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_workers_that_are_told_more_than_the_quota_break_promises_which_is_the_control(tmp_path: Path) -> None:
    with demo(tmp_path, "--no-naive", "--cheat", encoding="ascii") as process:
        out, err = process.communicate()
    assert process.returncode == 1, (out, err)
    lines = out.splitlines()
    assert any(line.startswith("FAIL docai: calls at once: ") for line in lines), out
    assert any(line.startswith("FAIL calls refused with 429: ") for line in lines), out
    assert any(line.startswith("ok   calls after a stored result: 0") for line in lines), out


@pytest.mark.slow
def test_a_signal_ends_everything_and_leaves_nothing(tmp_path: Path) -> None:
    with demo(tmp_path, "--no-naive") as process, Descendants(process.pid) as descendants:
        assert process.stderr is not None
        for line in process.stderr:
            if "chunks" in line:
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=100)
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == "forebay: interrupted"
    assert descendants.count >= 4
    assert descendants.left() == []
    assert list(tmp_path.iterdir()) == []
