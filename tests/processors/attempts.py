"""What a document that has taken over its parser might try."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attempt(arguments: dict[str, Any], files: list[int]) -> str:
    """What came of it: "did it", or the error."""
    try:
        ATTEMPTS[arguments["what"]](arguments.get("with"))
    except (OSError, RuntimeError, ValueError) as error:
        return type(error).__name__
    return "did it"


def _call(name: str, *arguments: object) -> int:
    found = int(getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments))
    if found < 0:
        raise OSError(ctypes.get_errno(), name)
    return found


def _fork(_: object) -> None:
    if _call("fork") == 0:
        os._exit(0)
    os.wait()


def _exec(_: object) -> None:
    """In a process of its own if there can be one, so that the control can tell of it."""
    if _can_fork() and (pid := os.fork()) != 0:
        if os.waitpid(pid, 0)[1] != 0:
            raise PermissionError
        return
    os.execv(sys.executable, [sys.executable, "-c", "pass"])


def _can_fork() -> bool:
    try:
        _fork(None)
    except OSError:
        return False
    return True


def _thread(_: object) -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


def _pair(_: object) -> None:
    for end in socket.socketpair():
        end.close()


def _raise_cpu_of_parent(_: object) -> None:
    resource.prlimit(os.getppid(), resource.RLIMIT_CPU, resource.prlimit(os.getppid(), resource.RLIMIT_CPU))


def _own(pid: int) -> None:
    ours, theirs = os.pipe()
    try:
        fcntl.fcntl(ours, fcntl.F_SETOWN, pid)
    finally:
        os.close(ours)
        os.close(theirs)


ATTEMPTS: dict[str, Callable[[Any], object]] = {
    "socket": lambda _: socket.socket().close(),
    "unix socket": lambda _: socket.socket(socket.AF_UNIX).close(),
    "socketpair": _pair,
    "connect": lambda port: socket.create_connection(("127.0.0.1", port), timeout=2).close(),
    "exec": _exec,
    "subprocess": lambda _: subprocess.run([sys.executable, "-c", "pass"], check=True),
    "fork": _fork,
    "thread": _thread,
    "signal": lambda pid: os.kill(pid, 0),
    "own": _own,
    "prlimit": _raise_cpu_of_parent,
    "memory": lambda _: resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40)),
    "ptrace": lambda _: _call("ptrace", 0, 0, 0, 0),
    "prctl": lambda _: _call("prctl", 1, 0, 0, 0, 0),
    "memfd": lambda _: os.close(os.memfd_create("x")),
    "read": lambda path: Path(path).read_bytes(),
    "list": lambda path: list(Path(path).iterdir()),
    "write": lambda path: Path(path).write_bytes(b"x"),
    "delete": lambda path: Path(path).unlink(),
    "rename": lambda path: Path(path).rename(f"{path}.new"),
    "chmod": lambda path: Path(path).chmod(0o700),
}
