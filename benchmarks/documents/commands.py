"""Runs a whole command in a process of its own, and says how long it took and how much memory it held itself."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from sysconfig import get_path
from typing import NamedTuple

import forebay as package

_LOOK_S = 0.01
_TAIL = 2000


class Wrong(Exception):
    """A command that failed, or whose answer is not what it should be: it has no figures."""


class Ran(NamedTuple):
    """`cpu_s` is of the process and all that it has started, `peak_mib` of the process alone."""

    seconds: float
    cpu_s: float
    peak_mib: float


def compiled() -> None:
    """As pip leaves packages: whoever starts more processes would else pay more often for what only a clone lacks."""
    for folder in (get_path("purelib"), str(Path(package.__file__).parent)):
        compileall.compile_dir(folder, quiet=2, workers=0)


def run(command: Sequence[str], environment: Mapping[str, str]) -> Ran:
    with tempfile.TemporaryFile() as said:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        peak = 0.0
        try:
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                peak = max(peak, _peak_mib(process.pid))
                time.sleep(_LOOK_S)
            process.returncode = os.waitstatus_to_exitcode(ended[1])
        finally:
            process.kill()
            process.wait()
        seconds = time.perf_counter() - began
        if process.returncode:
            said.seek(0)
            told = said.read().decode(errors="replace")[-_TAIL:]
            raise Wrong(f"{' '.join(command[:4])} … ended with {process.returncode}: {told}")
    return Ran(seconds, ended[2].ru_utime + ended[2].ru_stime, peak)


def forebay(document: Path, folder: Path, *formats: str, **options: str) -> Ran:
    """`forebay run` as anybody starts it, with a ledger and blobs that have never seen the document."""
    named = [part for name, value in options.items() for part in (f"--{name}", value)]
    with tempfile.TemporaryDirectory(prefix="forebay-home-", dir=folder) as home:
        return run(
            [
                *(sys.executable, "-m", "forebay", "run", str(document)),
                *("--out", str(folder), "--format", ",".join(formats), "--overwrite", *named),
            ],
            {"FOREBAY_HOME": home},
        )


def _peak_mib(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0
