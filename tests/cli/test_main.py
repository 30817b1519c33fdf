from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest

from forebay.cli import main
from forebay.cli.commands import COMMANDS, GROUPS
from tests.cli.ground import Ground, program


@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["--what"], ["server"], ["key", "list"]])
def test_a_wrong_call_exits_2_and_points_at_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "forebay --help" in capsys.readouterr().err


def test_a_command_that_is_nearly_right_is_suggested(here: Ground) -> None:
    assert "Did you mean list?" in here.run("lsit").err
    answer = here.run("dead", "lst")
    assert (answer.code, "Did you mean list?" in answer.err) == (2, True)
    assert "forebay dead --help" in here.run("dead").err


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_goes_to_stdout(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    assert capsys.readouterr().out.startswith("usage: forebay")


@pytest.mark.parametrize("name", [*COMMANDS, *GROUPS])
def test_every_command_has_help(name: str, here: Ground) -> None:
    out = here.ok(*name.split(), "--help").out
    assert out.startswith(f"usage: forebay {name}")
    assert (COMMANDS[name].summary if name in COMMANDS else GROUPS[name]) in out


def test_the_module_runs_as_a_program() -> None:
    assert program("--version").stdout == f"forebay {version('forebay')}\n"


def test_common_options_may_stand_before_the_command(here: Ground) -> None:
    here.ok("--ledger", "sqlite:///other.db", "submit", "-t", "add")
    assert here.ok("-o", "json", "--ledger=sqlite:///other.db", "list").json[0]["kind"] == "add"
    assert not here.ledger.exists()


@pytest.mark.parametrize("command", ["list", "dead list", "workers", "lanes list", "store check", "store migrate"])
def test_looking_at_a_ledger_that_is_not_there_exits_5_and_makes_none(command: str, here: Ground) -> None:
    answer = here.run(*command.split())
    assert answer.code == 5
    assert "There is no ledger at" in answer.err
    assert "forebay store init" in answer.err
    assert not here.home.exists()


def test_a_settings_file_can_be_named(here: Ground) -> None:
    (here.home.parent / "my.toml").write_text('ledger = "sqlite:///mine.db"\n')
    here.ok("submit", "-t", "add", "--config", "my.toml")
    assert (here.home.parent / "mine.db").exists()
    missing = here.run("list", "--config", "none.toml")
    assert (missing.code, "There is no file 'none.toml'" in missing.err) == (4, True)
    assert here.run("list", "--config", ".").code == 2


def test_an_unexpected_error_is_one_line_and_a_traceback_only_when_verbose(
    here: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.ok("store", "init")

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of\x1b luck")

    monkeypatch.setattr("forebay.app.forebay.Forebay.resolve", fail)
    answer = here.run("get", "abc")
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert "RuntimeError: out of\\x1b luck. This is a bug." in answer.err
    assert "Traceback" in here.run("get", "abc", "--verbose").err


def test_an_interrupt_exits_130(here: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    here.ok("store", "init")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("forebay.app.forebay.Forebay.resolve", interrupt)
    answer = here.run("get", "abc")
    assert (answer.code, answer.err) == (130, "forebay: interrupted\n")


@pytest.mark.slow
def test_a_reader_that_went_away_is_no_error(here: Ground) -> None:
    here.ok("submit", "-t", "add", "--bulk", "-", stdin=b"1\n" * 3000)
    command = [sys.executable, "-m", "forebay", "list", "--all", "-o", "ndjson"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.slow
def test_waiting_that_is_interrupted_exits_130(here: Ground) -> None:
    command = [sys.executable, "-m", "forebay", "submit", "-t", "add", "--wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (130, "forebay: interrupted\n")
