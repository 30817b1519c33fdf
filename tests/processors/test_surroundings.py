"""Systems that have no sandbox, and systems that offer one and then refuse it: a filter around us plays them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, sys
from forebay.child import seccomp
from forebay.errors import SandboxFailed
from forebay.processors.limited import run
from forebay.processors.parsers import Parsers
seccomp.install(RULES)

async def main():
    parsers = Parsers(1, verbs="tests.processors.verbs:VERBS")
    try:
        print("level", await parsers.level(), *(await parsers.level()).missing, sep="|")
        print(await parsers.call("echo", {"a": 1}))
    except SandboxFailed as error:
        print("parser:", error)
    await parsers.aclose()
    try:
        print("limited", await run(["true"], stdin=0, stdout=1, timeout_s=10, memory_mb=512))
    except SandboxFailed as error:
        print("limited:", error)

asyncio.run(main())
"""
PROBE_ONLY = "{'seccomp': seccomp.only_with(0, 2)}"


def _inside(rules: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("RULES", rules)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ("seccomp.deny(['landlock_restrict_self'])", "Landlock did not take its rules"),
        (PROBE_ONLY, "seccomp did not take the filter"),
    ],
)
def test_what_is_offered_and_then_refused_keeps_parsers_from_starting(rules: str, says: str) -> None:
    said = _inside(rules)
    assert "parser: The sandbox of a parser could not be set up" in said
    assert says in said
    assert "level" not in said


def test_a_program_does_not_start_without_its_limits() -> None:
    assert "limited: The limits of true could not be set up." in _inside(PROBE_ONLY)


@pytest.mark.parametrize(
    ("denied", "level", "missing"),
    [
        (["landlock_create_ruleset"], "seccomp", "landlock: what surrounds this process forbids it"),
        (["seccomp"], "landlock (ABI ", "seccomp: the kernel does not offer it (EPERM)"),
        (["seccomp", "landlock_create_ruleset"], "rlimit", "landlock: what surrounds this process forbids it"),
    ],
)
def test_what_is_not_offered_is_named_and_the_rest_holds(denied: list[str], level: str, missing: str) -> None:
    said = _inside(f"seccomp.deny({denied})")
    first, echoed, limited = said.splitlines()
    assert first.startswith(f"level|{level}")
    assert missing in first.split("|")[2:]
    assert echoed == "{'a': 1}"
    assert limited == "limited 0"
