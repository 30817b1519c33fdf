"""Keeps the cores awake without taking time from anybody: a core that sleeps between round trips slows all alike."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOOK_EVERY = 1_000_000


@contextmanager
def cores_awake() -> Iterator[None]:
    """A process for each core, which runs only when nobody else wants to.

    It is idle in a session of its own, too: where the kernel shares the processor among sessions first, an idle process
    would take what is its session's.
    """
    command = [sys.executable, "-m", "benchmarks.limiting.awake", str(os.getpid())]
    cores = sorted(os.sched_getaffinity(0))
    spinning = [subprocess.Popen([*command, str(core)], start_new_session=True) for core in cores]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def main() -> None:
    parent, core = map(int, sys.argv[1:])
    os.sched_setaffinity(0, {core})
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19", "ascii")
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while os.getppid() == parent:
        for _ in range(_LOOK_EVERY):
            pass


if __name__ == "__main__":
    main()
