"""Keeps docs/reference/cli.md equal to the code, and the commands that texts name real; a failure prints the row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cyclopts.argument import Argument

from forebay.cli.commands import COMMANDS, split
from forebay.cli.dispatch import load
from forebay.cli.help import described, is_place, place_name, spelled

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
COMMON = ("--ledger", "--config", "--verbose")
NAMED = re.compile(r"`forebay ([a-z]+(?: [a-z]+)?)")


def section(heading: str) -> list[str]:
    found = re.search(rf"^### {re.escape(heading)}$(.*?)(?=^##)", PAGE + "\n##", re.MULTILINE | re.DOTALL)
    assert found, f"### {heading}"
    return found[1].splitlines()


def row(argument: Argument) -> str:
    return f"| `{place_name(argument) if is_place(argument) else spelled(argument)}` | {described(argument).strip()} |"


def arguments(name: str) -> list[Argument]:
    return [each for each in load(name).assemble_argument_collection() if each.show]


def own(name: str) -> list[Argument]:
    shared = "Default: table." if name != "result" else "no such"
    return [each for each in arguments(name) if each.name not in COMMON and shared not in described(each)]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented_with_each_of_its_options(name: str) -> None:
    lines = section(name)
    assert COMMANDS[name].summary in "\n".join(lines)
    rows = [line for line in lines if line.startswith("| `")]
    assert rows == [row(each) for each in own(name)]


def test_the_options_that_all_share_are_documented_once() -> None:
    lines = PAGE.splitlines()
    for each in arguments("list"):
        if each not in own("list"):
            assert row(each) in lines


def test_the_page_has_no_command_that_the_program_does_not_have() -> None:
    assert re.findall(r"^### (.*)$", PAGE, re.MULTILINE) == list(COMMANDS)


def texts() -> list[Path]:
    return [*sorted((ROOT / "src").rglob("*.py")), ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_command_that_a_text_tells_to_run_exists() -> None:
    named = {(file.name, words) for file in texts() for words in NAMED.findall(file.read_text(encoding="utf-8"))}
    assert [each for each in sorted(named) if not split(each[1].split())[0]] == []
    assert len(named) > len(COMMANDS) / 2
