"""A document through kill -9 of everything, again and again: the same output, and nothing done is done again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from forebay import Forebay
from forebay.model.query import Query
from forebay.model.task import Role, Status
from tests.pipelines.ground import pdf

PAGES = 200
APP = str(Path(__file__).with_name("document_app.py")) + ":app"
LEAST_KILLS = 3
MOST_EARLY = 3
pytestmark = pytest.mark.timeout(240)  # a document from beginning to end, several times


def command(folder: Path, name: str, home: str) -> tuple[list[str], dict[str, str]]:
    words = ["run", str(folder / "scan.pdf"), "--out", str(folder / name), "--app", APP, "--processor", "noted"]
    kept = {each: value for each, value in os.environ.items() if not each.startswith("FOREBAY_")}
    environment = kept | {
        "FOREBAY_HOME": str(folder / home),
        "NOTED": str(folder / f"{name}.log"),
        "FOREBAY_LEASE_S": "1",
        "FOREBAY_CONCURRENCY": "4",
    }
    return [sys.executable, "-m", "forebay", *words, "-f", "md,txt,json"], environment


def undisturbed(folder: Path) -> None:
    words, environment = command(folder, "undisturbed", "home-a")
    subprocess.run(words, env=environment, check=True, capture_output=True, timeout=150)


def killed_until_done(folder: Path, chance: random.Random) -> int:
    """Mostly after some progress: a step that five runs die in is taken for what kills them."""
    words, environment = command(folder, "killed", "home-b")
    log = folder / "killed.log"
    kills = early = 0
    while True:
        process = subprocess.Popen(
            words, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        enough = lines(log) + chance.randint(3, 10)
        if early < MOST_EARLY and chance.random() < 0.3:
            early += 1
            enough = 0
        while process.poll() is None and lines(log) < enough:
            time.sleep(0.01)
        try:
            assert process.wait(chance.uniform(0.0, 0.4)) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
        else:
            return kills


def lines(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


@pytest.mark.slow
def test_whatever_is_killed_the_output_is_the_same_and_nothing_done_is_done_again(tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf(PAGES))
    undisturbed(tmp_path)
    kills = killed_until_done(tmp_path, random.Random(5))
    assert kills >= LEAST_KILLS
    for suffix in ("md", "txt", "json"):
        name = f"scan.{suffix}"
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()
    ended = completions(tmp_path)
    assert len(ended) == PAGES / 5
    calls = [line.split() for line in (tmp_path / "killed.log").read_text().splitlines()]
    late = [(page, at) for page, at in calls if float(at) > ended[int(page)] + CLOCKS_S]
    assert late == []
    again = Counter(page for page, _ in calls)
    assert sum(count - 1 for count in again.values()) <= 4 * kills  # no more than were under way when it died


CLOCKS_S = 0.005


def completions(folder: Path) -> dict[int, float]:
    """When the ledger recorded each chunk's completion, by its first page."""
    with Forebay(f"sqlite:///{folder}/home-b/forebay.db") as app:
        (job,) = app.ledger.list_jobs(Query()).items
        found = {}
        for listed in app.ledger.list_tasks(Query(job_id=job.id, role=Role.CHUNK, size=500)).items:
            task = app.ledger.get(listed.id)
            assert task is not None
            assert task.status is Status.COMPLETED
            assert isinstance(task.payload, dict)
            found[task.payload["pages"][0]] = task.finished_at or 0.0  # type: ignore[index]
        return found  # type: ignore[return-value]


@pytest.mark.slow
def test_the_check_catches_a_chunk_that_is_processed_after_its_completion(tmp_path: Path) -> None:
    """Negative control: without reuse a second run processes what was completed before."""
    (tmp_path / "scan.pdf").write_bytes(pdf(10))
    words, environment = command(tmp_path, "killed", "home-b")
    subprocess.run(words, env=environment, check=True, capture_output=True, timeout=150)
    ended_at = time.time()
    subprocess.run([*words, "--no-reuse"], env=environment, check=True, capture_output=True, timeout=150)
    calls = [float(line.split()[1]) for line in (tmp_path / "killed.log").read_text().splitlines()]
    assert sum(at > ended_at for at in calls) == 2
