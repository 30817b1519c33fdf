"""kill -9 between the paid submit and its result: whoever comes next polls the same job, and pays for nothing again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.testing import Simulated
from tests.autotag.ground import checked
from tests.pipelines.ground import pdf

PAGES = 310  # three chunks


def command(folder: Path, sim: Simulated, *more: str) -> tuple[list[str], dict[str, str]]:
    words = [sys.executable, "-m", "forebay", "run", str(folder / "scan.pdf"), "--processor", "adobe", *more]
    kept = {each: value for each, value in os.environ.items() if not each.startswith("FOREBAY_")}
    return words, kept | {
        "FOREBAY_HOME": str(folder / "home"),
        "FOREBAY_LEASE_S": "1",
        "FOREBAY_ADOBE_URL": sim.base,
        "FOREBAY_ADOBE_CLIENT_ID": "client",
        "FOREBAY_ADOBE_CLIENT_SECRET": "canary-secret",
    }


def limited(folder: Path, sim: Simulated) -> None:
    _, environment = command(folder, sim)
    words = [sys.executable, "-m", "forebay", "limits", "set", "adobe", "--in-flight", "4"]
    subprocess.run(words, env=environment, check=True, capture_output=True, timeout=150)


def killed_when(words: list[str], environment: dict[str, str], condition: Callable[[], bool]) -> None:
    process = subprocess.Popen(
        words, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        ends_at = time.monotonic() + 60
        while not condition():
            assert process.poll() is None, "it ended first"
            assert time.monotonic() < ends_at
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def polls(sim: Simulated) -> Counter[str]:
    """Return how often each chunk that was submitted has been asked for."""
    return Counter(call["fingerprint"] for call in sim.calls("adobe.status"))


@pytest.mark.slow
def test_after_kill_9_between_submit_and_result_nothing_is_submitted_again(tmp_path: Path, sim: Simulated) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf(PAGES))
    limited(tmp_path, sim)
    sim.change(latency={"adobe.job": {"s": 12.0}})
    words, environment = command(tmp_path, sim)
    # The first poll comes a second after the location was stored, and the job ends much later.
    killed_when(words, environment, lambda: len(polls(sim)) == 3)
    assert len(sim.calls("adobe.autotag")) == 3
    assert sim.calls("adobe.download") == []
    before = polls(sim).total()
    killed_when(words, environment, lambda: polls(sim).total() >= before + 3)
    assert sim.calls("adobe.download") == []
    subprocess.run(words, env=environment, check=True, capture_output=True, timeout=150)
    said = sim.verdict()
    assert len(sim.calls("adobe.autotag")) == 3
    assert (said["chunks"], said["paid_more_than_once"], said["most_calls_of_a_chunk"]) == (3, 0, 1)
    whole = checked((tmp_path / "scan.tagged.pdf").read_bytes())
    assert (whole["page_count"], whole["mark_count"], whole["problem_count"]) == (PAGES, PAGES, 0)


@pytest.mark.slow
def test_the_judge_sees_a_document_that_is_submitted_again(tmp_path: Path, sim: Simulated) -> None:
    """Negative control: without reuse the second run begins from the beginning."""
    (tmp_path / "scan.pdf").write_bytes(pdf(2))
    limited(tmp_path, sim)
    sim.change(latency={"adobe.job": {"s": 3.0}})
    words, environment = command(tmp_path, sim, "--no-reuse")
    killed_when(words, environment, lambda: len(sim.calls("adobe.status")) >= 1)
    subprocess.run(words, env=environment, check=True, capture_output=True, timeout=150)
    assert sim.verdict()["paid_more_than_once"] == 1
