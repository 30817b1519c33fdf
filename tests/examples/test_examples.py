"""Every example runs by itself, offline, and prints what it is for; each can be given to a worker too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAYS = {
    "api_429": ["8 of 8 emails sent", " 0 retries", "rescheduled 429, Retry-After: ", "attempt 2: "],
    "backpressure": ["6 orders done, never more than 2 at", "reschedules: True, retries: 0", "meanwhile: True"],
    "circuit_breaker": ["6 answers from 10 calls", "4 failed calls cost a retry each; the circuit opened: True"],
    "market_hours": ["rescheduled (the market is closed), then completed: ", "'symbol': 'XYZ'", "'early': False"],
    "own_limiter": ["[0, 1, 4, 9, 16, 25, 36, 49, 64, 81]", "at most 4 calls", "reschedules: True, retries: 0"],
    "own_pipeline": ["chunk 2: retried, completed", "'counts': [3, 3, 3, 7]", "4 calls of fake_api"],
    "own_processor": ["9 pages paid in 6 calls, never more than 2 at once", "another job: completed, 9 pages paid"],
}
Run = subprocess.CompletedProcess[str]


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
    return kept | {"TMPDIR": str(folder)}


def _run(name: str, folder: Path) -> Run:
    return subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Run]]]:
    """They mostly wait, so they may do it all at once."""
    with ThreadPoolExecutor(len(SAYS)) as pool:
        yield {name: pool.submit(_run, name, tmp_path_factory.mktemp(name)) for name in SAYS}


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_and_prints_what_it_is_for(name: str, runs: dict[str, Future[Run]]) -> None:
    run = runs[name].result()
    assert (run.returncode, run.stderr) == (0, ""), run.stderr
    for said in SAYS[name]:
        assert said in run.stdout


def test_every_example_can_be_given_to_a_worker_by_its_file(tmp_path: Path) -> None:
    code = (
        "import sys; from forebay.app.target import load; print([len(load(f'{f}:app').registry) for f in sys.argv[1:]])"
    )
    files = sorted(map(str, EXAMPLES.glob("*.py")))
    said = subprocess.check_output(
        [sys.executable, "-c", code, *files], cwd=tmp_path, env=_environment(tmp_path), text=True
    )
    *counts, with_documents = json.loads(said)
    assert counts == [1, 2, 1, 1, 1, 3]
    assert with_documents > 3
    assert list(tmp_path.iterdir()) == []


def test_every_example_is_run_here() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.py")} == set(SAYS)
