"""Reads from the kernel what processes cost: processor time, memory, and who their children are."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SAMPLE = 10
_NICE = -10
_SCHEDULED = 2  # CPUCLOCK_SCHED of clock_getcpuclockid(3), which Python does not have for processes


def prefer(pid: int) -> None:
    """Give a process more of the processor than its clients, as if it had a machine of its own, where that is allowed.

    Where the kernel shares the processor among sessions first, the same is said of its session, which must be its own.
    """
    with suppress(PermissionError, FileNotFoundError):
        os.setpriority(os.PRIO_PROCESS, pid, _NICE)
        Path(f"/proc/{pid}/autogroup").write_text(str(_NICE), "ascii")


def cpu_s(pids: Iterable[int]) -> float:
    """Of those that live, without children, by the clock that the kernel keeps for each: ticks are too coarse."""
    return sum(map(_own_cpu_s, pids))


def cpu_of_tree_s(pid: int) -> float:
    """Of a server with all of its children, also of those that have ended."""
    return sum(sum(map(int, fields[11:15])) for fields in map(_fields, tree(pid)) if fields) / _TICKS


def tree(pid: int) -> list[int]:
    """The process and its children's children."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        fields = _fields(int(path.name))
        if fields:
            children.setdefault(int(fields[1]), []).append(int(path.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def rss_mb(pids: Iterable[int]) -> float:
    """The median."""
    return statistics.median(_rss_pages(pid) for pid in pids) * _PAGE_BYTES / 1e6


def own_mb(pids: list[int]) -> float:
    """The median of what a process has for itself: its share of what several have (PSS), of some of them."""
    return statistics.median(_pss_kb(pid) for pid in pids[:: max(1, len(pids) // _SAMPLE)]) / 1e3


def _own_cpu_s(pid: int) -> float:
    with suppress(OSError):
        return time.clock_gettime((~pid << 3) | _SCHEDULED)
    return 0.0


def _fields(pid: int) -> list[str]:
    """Those of /proc/PID/stat after the name, beginning with the state."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()
    return []


def _rss_pages(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return 0


def _pss_kb(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0
