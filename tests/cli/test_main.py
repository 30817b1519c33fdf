from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from forebay.cli import main


def test_run_says_that_it_comes_later_and_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "scan.pdf"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "forebay run: not available yet: the document pipeline comes with a later version.\n"


@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["--what"]])
def test_a_wrong_call_exits_2_and_points_at_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "forebay --help" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_goes_to_stdout(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    assert capsys.readouterr().out.startswith("usage: forebay")


def test_the_module_runs_as_a_program() -> None:
    run = subprocess.run([sys.executable, "-m", "forebay", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout == f"forebay {version('forebay')}\n"
