"""Runs a program that is not ours over untrusted bytes: bounded, without network, killed when it takes too long."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import forebay
from forebay.errors import SandboxFailed
from forebay.processors.processes import MIB, Process, environment, failure, timed_out

_REFUSED = 125
# Without site and its .pth files, which take longer to read than all that is needed here.
_START = "import sys; sys.path.append(sys.argv.pop(1)); from forebay.child.__main__ import main; sys.exit(main())"
_ROOT = str(Path(forebay.__file__).parents[1])


async def run(
    command: Sequence[str],
    *,
    stdin: int,
    stdout: int,
    timeout_s: float,
    memory_mb: int,
    cpu_s: float | None = None,
    stderr: int = subprocess.DEVNULL,
    variables: Mapping[str, str] | None = None,
) -> int:
    """Its exit code; Retry if it was killed by a signal or by us. It sees no variables but its own.

    It starts no further program and no further process, so name the program itself, not a script that starts it.
    """
    bounds = ["--memory-mb", str(memory_mb), "--cpu-s", str(math.ceil(timeout_s if cpu_s is None else cpu_s))]
    start = [sys.executable, "-I", "-S", "-c", _START, _ROOT, "--limit", *bounds, "--parent", str(os.getpid())]
    kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    process = Process(
        [*start, "--", *command],
        environment() | kept | dict(variables or {}),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )
    who = Path(command[0]).name
    try:
        async with asyncio.timeout(timeout_s):
            ending = await process.ended()
    except TimeoutError:
        process.kill()
        await process.ended()
        raise timed_out(f"{who} took longer than {timeout_s:g} s.") from None
    except BaseException:
        process.kill()
        await asyncio.shield(process.ended())
        raise
    if ending.code == _REFUSED:
        remedy = "Run `forebay doctor`, and see docs/explanation/sandbox.md."
        raise SandboxFailed(f"The limits of {who} could not be set up.", remedy=remedy)
    if ending.code < 0:
        raise failure(who, ending, memory_mb * MIB)
    return ending.code
