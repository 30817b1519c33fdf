"""Help must come at once, so it loads neither the stores nor the libraries below them."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "apsw",
    "asyncio",
    "forebay.model.task",
    "forebay.stores",
    "httpx2",
    "obstore",
    "pydantic",
    "rich",
    "structlog",
)
SCRIPT = "import sys; from forebay.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"


def loaded(*arguments: str) -> set[str]:
    run = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("usage: forebay")
    return set(run.stderr.split())


@pytest.mark.parametrize(
    "command",
    [
        *("run", "estimate", "result", "list", "submit", "history", "dead requeue", "worker"),
        *("lanes pause", "limits set", "plan", "store gc", "doctor"),
    ],
)
def test_help_of_a_command_loads_signatures_only(command: str) -> None:
    assert loaded(*command.split(), "--help") & set(HEAVY) == set()


def test_help_of_all_commands_loads_no_command_at_all() -> None:
    modules = loaded("--help")
    assert modules & {*HEAVY, "cyclopts"} == set()
    assert {name for name in modules if name.startswith("forebay.")} == {
        "forebay.cli",
        "forebay.cli.commands",
        "forebay.cli.help",
        "forebay.cli.streams",
    }
