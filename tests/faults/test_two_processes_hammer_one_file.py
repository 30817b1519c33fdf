"""The short form of `./dev chaos ledger`: two processes on one file are killed and stopped, then all is judged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chaos import checker

ROOT = Path(__file__).parents[2]


def hammered(folder: Path, seed: int, *, minutes: float = 0.17) -> subprocess.CompletedProcess[str]:
    # A process of its own: the hammer forks, which a process with threads must not.
    command = [sys.executable, "-m", "chaos", "ledger", "--minutes", str(minutes), "--seed", str(seed)]
    return subprocess.run(
        [*command, "--folder", str(folder / str(seed))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.timeout(300)
def test_nothing_is_lost_or_doubled_when_either_process_is_killed_again_and_again(tmp_path: Path) -> None:
    run = hammered(tmp_path, 11)
    if run.returncode == checker.VOID:
        # Too little happened to prove anything, by bad luck or on a slow machine: once more, for longer.
        run = hammered(tmp_path, 12, minutes=0.7)
    assert run.returncode == checker.OK, run.stdout + run.stderr
    figures = dict(line.strip().rsplit(maxsplit=1) for line in run.stdout.splitlines() if line.startswith("  "))
    assert int(figures["kills"]) >= 20
