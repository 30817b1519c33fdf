"""Finds the processes that a worker has left behind, by the marks in their environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def of(marks: Mapping[str, str]) -> dict[int, float]:
    """Those that run and were started with these variables, with the seconds of CPU that each has used."""
    wanted = {f"{variable}={value}".encode() for variable, value in marks.items()}
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            # A zombie has no environment any more.
            with suppress(OSError, IndexError):
                if wanted <= {*(entry / "environ").read_bytes().split(b"\0")}:
                    found[int(entry.name)] = _cpu_s(entry)
    return found


def _cpu_s(entry: Path) -> float:
    fields = (entry / "stat").read_text("latin-1").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
