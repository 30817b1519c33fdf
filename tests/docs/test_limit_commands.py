"""The commands of the page about limits do what it says, in its order."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from forebay.limits import Limit, Limiter, Window

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "limit-an-api.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_commands_about_limits_run(tmp_path: Path) -> None:
    text = "\n".join(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    commands = [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("forebay ")]
    with Limiter(f"sqlite:///{tmp_path / 'limits.db'}") as limiter:
        limiter.define(Limit("adobe", in_flight=150, windows=(Window(190, 60),)))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
    said = []
    for command in commands:
        run = subprocess.run(
            [sys.executable, "-m", "forebay", *command],
            cwd=tmp_path,
            env=kept | {"HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, (command, run.stderr)
        said.append(run.stdout)
    listed, _, changed, paused, resumed, planned, examples = said
    assert "0/190 calls per 60 s" in listed
    assert changed == resumed == "adobe  150 in flight, 100 calls per 60 s  open\n"
    assert re.fullmatch(r"adobe  150 in flight, 100 calls per 60 s  paused by cli:\S+\n", paused)
    assert "47.6 s" in planned
    assert "often said" in examples


def test_the_page_of_commands_prints_plans_as_the_program_does() -> None:
    page = (PAGE.parents[1] / "reference" / "cli.md").read_text(encoding="utf-8")
    command = "forebay plan --call-time 30 --in-flight 150 --window 190/60 --calls 10000"
    run = subprocess.run([sys.executable, "-m", *command.split()], capture_output=True, text=True, check=True)
    assert f"$ {command}\n{run.stdout}```" in page
