"""Starts the processes that touch untrusted bytes, waits for them, and says what their end means."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from forebay.engine import strays
from forebay.engine.children import how_it_ended
from forebay.engine.signals import Retry
from forebay.rules.verdict import ErrorClass

MIB = 1 << 20
_POLL_S = 0.01
_UNKNOWN = 255
_KIB = 1 if sys.platform == "darwin" else 1 << 10
# What an interpreter or a program may need to find its libraries and its letters; all the rest is nobody's business.
_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME")


class Ending(NamedTuple):
    code: int
    peak_bytes: int


def environment() -> dict[str, str]:
    # One heap: each further one would reserve 64 MiB of what the process may use.
    return {name: os.environ[name] for name in _KEPT if name in os.environ} | {"MALLOC_ARENA_MAX": "1"}


class Process:
    """In a session and a group of its own, with nothing inherited but what it is given."""

    def __init__(
        self,
        command: Sequence[str],
        variables: Mapping[str, str],
        *,
        files: Sequence[int] = (),
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int | None = None,
    ) -> None:
        self._popen = subprocess.Popen(  # noqa: S603 - ourselves
            command,
            env=variables,
            pass_fds=files,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd="/",
            start_new_session=True,
        )
        self._ending: Ending | None = None

    @property
    def pid(self) -> int:
        return self._popen.pid

    def ending(self) -> Ending | None:
        """None while it runs; asking takes it from the kernel's list, so that its number may go to another."""
        if self._ending is None:
            try:
                pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else in this program has waited for it
                self._popen.returncode = _UNKNOWN
                return Ending(_UNKNOWN, 0)
            if pid:
                self._popen.returncode = os.waitstatus_to_exitcode(status)
                self._ending = Ending(self._popen.returncode, usage.ru_maxrss * _KIB)
        return self._ending

    def wait(self) -> None:
        """Blocking."""
        while self.ending() is None:
            time.sleep(_POLL_S)

    def kill(self) -> None:
        if self.ending() is None:
            strays.send_group(self.pid, signal.SIGKILL)

    async def ended(self) -> Ending:
        while (ending := self.ending()) is None:
            await self._sleep()
        return ending

    async def _sleep(self) -> None:
        """Until it ends, where the kernel tells; else a moment."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            await asyncio.sleep(_POLL_S)
            return
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()
        loop.add_reader(descriptor, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(descriptor)
            with suppress(OSError):
                os.close(descriptor)


def failure(who: str, ending: Ending, memory_bytes: int) -> Retry:
    """For a process that ended by itself before it had done its work."""
    how = how_it_ended(ending.code)
    if ending.code == -signal.SIGXCPU:
        return timed_out(f"{who} used more CPU time than it may.")
    if ending.code == -signal.SIGKILL or (ending.code < 0 and _used_much(ending, memory_bytes)):
        text = f"{who} ran out of memory ({how}; at most {ending.peak_bytes // MIB} MiB in use)."
        return Retry(text, error_class=ErrorClass.PARSER_MEMORY)
    return Retry(f"{who} crashed: {how}.", error_class=ErrorClass.PARSER_CRASHED)


def timed_out(text: str) -> Retry:
    return Retry(text, error_class=ErrorClass.PARSER_TIMEOUT)


def _used_much(ending: Ending, memory_bytes: int) -> bool:
    """C code without memory aborts or falls over: then it had most of what it may have.

    The peak counts what this process had when it started the other, so a peak below our own says nothing.
    """
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
    return ending.peak_bytes > max(ours, memory_bytes // 2)
