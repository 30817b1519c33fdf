"""The short form of `./dev chaos engine`: workers are killed, stopped and cut off, then all is judged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chaos import checker
from chaos.engine.dice import PLACES

ROOT = Path(__file__).parents[2]


def stormed(folder: Path, seed: int, seconds: float, *options: str) -> subprocess.CompletedProcess[str]:
    # A process of its own: the conductor forks, which a process with threads must not.
    command = [sys.executable, "-m", "chaos", "engine", "--minutes", f"{seconds / 60:.3f}", "--seed", str(seed)]
    return subprocess.run(
        [*command, "--folder", str(folder / str(seed)), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


@pytest.mark.timeout(320)
def test_nothing_is_lost_doubled_or_left_behind_when_workers_are_struck_at_every_step(tmp_path: Path) -> None:
    run = stormed(tmp_path, 21, 12)
    if run.returncode == checker.VOID:
        # By bad luck some fault did not strike: the dice are thrown once more, for longer.
        run = stormed(tmp_path, 22, 20)
    assert run.returncode == checker.OK, run.stdout + run.stderr
    figures = dict(line.strip().rsplit(maxsplit=1) for line in run.stdout.splitlines() if line.startswith("  "))
    fired = {place: int(figures[f"failpoint {place}"]) for place in PLACES}
    print(fired)  # noqa: T201 - shown when asked for, and when it fails
    assert min(fired.values()) >= 1
    assert int(figures["workers killed"]) >= 8
    assert int(figures["settles fenced"]) >= 1


@pytest.mark.parametrize(
    ("sabotage", "words"),
    [("unfenced", "its result was made under"), ("forgetful", "acknowledged as")],
)
@pytest.mark.timeout(160)
def test_a_ledger_that_breaks_its_word_to_workers_is_convicted(tmp_path: Path, sabotage: str, words: str) -> None:
    run = stormed(tmp_path, 23, 6, "--sabotage", sabotage)
    assert run.returncode == checker.VIOLATION, run.stdout + run.stderr
    assert words in run.stdout
    assert f"again: ./dev chaos engine --minutes 0.1 --seed 23 --sabotage {sabotage}" in run.stdout
