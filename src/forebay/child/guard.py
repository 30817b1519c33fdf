"""Bounds a child: it ends with its worker, keeps its orphans, and uses no more than it may."""

from __future__ import annotations

import fcntl
import math
import os
import resource
import select
import signal
import threading
import time
from contextlib import suppress

from forebay.child.kernel import LINUX, prctl

_F_SETSIG = 10
_PR_SET_CHILD_SUBREAPER = 36
_PROFILING_CLOCK = -8  # of this process: user and system time, counted in ticks


def die_with_parent(lifeline: int) -> None:
    """When the worker's end of the pipe closes, however it died, this process and its group are killed.

    Linux does it by itself, whatever code of ours is stuck; elsewhere a thread does, when it gets to run.
    """
    ask_to_die_with_parent(lifeline)
    threading.Thread(target=_watch, args=(lifeline,), name="forebay-lifeline", daemon=True).start()


def ask_to_die_with_parent(lifeline: int) -> None:
    """The part that needs no thread: enough on Linux."""
    if LINUX:
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:
        os._exit(1)  # it died before we could ask


def _watch(lifeline: int) -> None:
    with suppress(OSError):
        os.read(lifeline, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def adopt_orphans() -> None:
    """What a handler starts stays below this process, even if it detaches itself: so the worker can find it."""
    if LINUX:
        with suppress(OSError, AttributeError):
            prctl(_PR_SET_CHILD_SUBREAPER, 1)


def bound(memory_bytes: str) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes:
        _lower(resource.RLIMIT_AS, int(memory_bytes))


def bound_cpu(cpu_s: float) -> None:
    """For the next task alone: a warm child has used some already."""
    _lower(resource.RLIMIT_CPU, math.ceil(_used_s() + cpu_s))


def _used_s() -> float:
    """By the clock that the limit goes by: what getrusage says is smoothed, and drifts away from it."""
    if LINUX:
        return time.clock_gettime(_PROFILING_CLOCK)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _lower(what: int, soft: int) -> None:
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
