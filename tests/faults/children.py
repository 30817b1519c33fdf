"""Runs a piece of Python in a process of its own, which may be killed, limited or robbed of its rights."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_PRELUDE = """
import json, os, sys, time
from pathlib import Path
from forebay.clock import SystemClock
from forebay.errors import ForebayError
from forebay.model.exchange import Session, Want
from forebay.model.task import NewTask
from forebay.stores.sqlite.ledger import SqliteLedger

def tell(value):
    print(json.dumps(value), flush=True)

def attempt(call):
    '''The name of the error that a call ends with, or "ok".'''
    try:
        call()
    except ForebayError as error:
        assert error.remedy, error
        return type(error).__name__
    return "ok"

path = Path(sys.argv[1])
"""
_NOBODY = """
import tempfile
with tempfile.TemporaryDirectory() as folder:
    # Whatever is imported or read on first use must be, while this process may still read it.
    warm = SqliteLedger(Path(folder) / "warm.db")
    warm.submit([NewTask(kind="warm")])
    warm.check()
    warm.close()
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
"""


def start(script: str, path: Path, *, as_nobody: bool = False) -> subprocess.Popen[str]:
    """`as_nobody` gives up root's rights, which no file mode binds."""
    code = _PRELUDE + (_NOBODY if as_nobody else "") + script
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def told(child: subprocess.Popen[str]) -> Any:  # noqa: ANN401 - whatever the child tells
    """The next thing that the child tells."""
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line, "the child ended without a word"
    return json.loads(line)


def end(child: subprocess.Popen[str]) -> None:
    """Kill it, if it has not ended, and leave nothing behind."""
    child.kill()
    child.communicate()


def run(script: str, path: Path, *, as_nobody: bool = False) -> Any:  # noqa: ANN401 - whatever the child tells
    """All of a short script; answers with what it told first."""
    child = start(script, path, as_nobody=as_nobody)
    try:
        answer = told(child)
        child.communicate(timeout=100)
        assert child.returncode == 0
        return answer
    finally:
        end(child)
